"""The documents of files and folders, made to fit one message."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from callboard.memory.documents import load_documents

from .markdown import title_of
from .messages import DEFAULT_WORDS, Document, Requirements

LIMIT_BYTES = 900_000
"""Bytes of text in one `Requirements`, below the 1 MiB that a message may have."""

_SMALLEST_SHARE = 2_000
"""Bytes; with so many files that each would get less, whole files are left out instead."""

_OVERHEAD = 32


@dataclass(frozen=True, slots=True)
class Prepared:
    """Documents that fit one message.

    Attributes:
        title: Heading for the digest.
        documents: In reading order.
        left_out: Sentences on everything that is not in the documents; empty if nothing is missing.
    """

    title: str
    documents: list[Document]
    left_out: list[str] = field(default_factory=list)

    def requirements(self, job: str, *, words: int = DEFAULT_WORDS, pace: float = 0.0) -> Requirements:
        """Make the message that starts the job.

        Args:
            job: Names the run: 1 to 64 letters, digits, `.`, `_` or `-`.
            words: Longest digest.
            pace: Seconds that a worker waits before each draft.
        """
        return Requirements(job=job, title=self.title, documents=self.documents, words=words, pace=pace)


def prepare(paths: Path | str | Sequence[Path | str], limit_bytes: int = LIMIT_BYTES) -> Prepared:
    """Read files and folders and make them fit one message.

    Too much text is thinned out: every document keeps a fair share, small ones whole, and of a long one
    paragraphs from all over it. The same files give the same documents everywhere.

    Args:
        paths: One path or several.
        limit_bytes: Most bytes of UTF-8 that the documents may have together, names included.

    Returns:
        The documents, and sentences on everything that was left out.

    Raises:
        MemoryUnusableError: One of the paths cannot be used.
    """
    given = [Path(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)]
    documents: list[Document] = []
    left_out: list[str] = []
    for path in given:
        read = load_documents(path)
        documents += [Document(name=one.name, text=one.text) for one in read.found]
        left_out += read.left_out
    title = _title(given, documents)
    fitting, thinned = fit(documents, limit_bytes)
    return Prepared(title, fitting, left_out + thinned)


def fit(documents: Sequence[Document], limit_bytes: int) -> tuple[list[Document], list[str]]:
    """Thin documents out until they fit.

    Args:
        documents: In reading order.
        limit_bytes: Most bytes of UTF-8 for texts and names together.

    Returns:
        The documents, and sentences on what is shortened or missing.
    """
    kept, left_out = _affordable(documents, limit_bytes)
    shares = _shares([_size(document) for document in kept], limit_bytes)
    fitting: list[Document] = []
    shortened: list[tuple[str, int]] = []
    for document, share in zip(kept, shares, strict=True):
        size = _size(document)
        if size <= share:
            fitting.append(document)
            continue
        text = _thinned(document.text, share - _overhead(document))
        fitting.append(Document(name=document.name, text=text))
        shortened.append((document.name, _size(fitting[-1]) * 100 // size))
    return fitting, left_out + _shortened(shortened)


def _title(paths: Sequence[Path], documents: Sequence[Document]) -> str:
    if len(documents) == 1 or len(paths) > 1:
        return title_of(documents[0])
    return paths[0].resolve().name.encode("utf-8", "replace").decode("utf-8") or "Digest"


def _overhead(document: Document) -> int:
    return len(document.name.encode()) + _OVERHEAD


def _size(document: Document) -> int:
    return len(document.text.encode()) + _overhead(document)


def _affordable(documents: Sequence[Document], limit: int) -> tuple[list[Document], list[str]]:
    """As many documents, evenly from all of them, as can each have a share worth reading."""
    most = max(1, limit // _SMALLEST_SHARE)
    if len(documents) <= most or sum(map(_size, documents)) <= limit:
        return list(documents), []
    kept = [documents[at * len(documents) // most] for at in range(most)]
    return kept, [f"{len(documents) - most:,} of {len(documents):,} files, evenly from all of them."]


def _shortened(files: Sequence[tuple[str, int]]) -> list[str]:
    """One sentence per file, or one for all when there are many."""
    if len(files) <= 5:
        return [f"{name}: {percent} % kept, from all over it." for name, percent in files]
    percents = [percent for _, percent in files]
    return [
        f"{len(files):,} long files: {min(percents)} to {max(percents)} % kept of each, from all over it."
    ]


def _shares(sizes: Sequence[int], limit: int) -> list[int]:
    """The same limit for all, except that what small ones do not need goes to the others."""
    shares = list(sizes)
    left, waiting = limit, len(sizes)
    for at in sorted(range(len(sizes)), key=lambda at: (sizes[at], at)):
        shares[at] = min(sizes[at], left // waiting)
        left -= shares[at]
        waiting -= 1
    return shares


def _thinned(text: str, limit: int) -> str:
    """Headings and paragraphs from all over a text, code blocks first to go."""
    blocks = list(_blocks(text))
    sizes = [len(block.encode()) + 2 for block in blocks]
    total = sum(sizes)
    kept: list[str] = []
    seen = used = 0
    for block, size in zip(blocks, sizes, strict=True):
        seen += size
        # Whatever was read so far has had its share of the limit.
        if used + size <= max(limit * seen // max(total, 1), 0):
            kept.append(block)
            used += size
    return "\n\n".join(kept) if kept else text.encode()[: max(limit, 0)].decode("utf-8", "ignore")


def _blocks(text: str) -> Iterator[str]:
    """Paragraphs, long ones cut by lines, without fenced code."""
    paragraph: list[str] = []
    fence = ""
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        mark = line.lstrip()[:3]
        is_fence = mark in ("```", "~~~") and (not fence or mark == fence)
        if is_fence:
            fence = "" if fence else mark
        if line.strip() and not is_fence and not fence:
            paragraph.extend(_pieces(line))
        if paragraph and (not line.strip() or len(paragraph) > 20):
            yield "\n".join(paragraph)
            paragraph = []
    if paragraph:
        yield "\n".join(paragraph)


def _pieces(line: str) -> Iterator[str]:
    """A line as it is, or, when it holds a whole chapter, cut at spaces."""
    while len(line) > 2_000:
        at = line.rfind(" ", 1_000, 2_000)
        at = at if at > 0 else 2_000
        yield line[:at]
        line = line[at:].lstrip()
    yield line
