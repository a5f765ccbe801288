"""Files and folders into documents that fit one message. The only module of the job that reads files."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .errors import (
    DocumentBinaryError,
    DocumentEmptyError,
    DocumentError,
    DocumentKindError,
    DocumentMissingError,
    DocumentUnreadableError,
    NoDocumentsError,
)
from .markdown import title_of
from .messages import DEFAULT_WORDS, Document, Requirements

ENDINGS = (".md", ".markdown", ".txt")
MAX_FILES = 5_000
"""Files that are read of a folder, in order; the rest is left out and named as such."""

MAX_FILE_BYTES = 8_000_000
"""Bytes that are read of a file; of a longer one, the rest is left out."""

LIMIT_BYTES = 900_000
"""Bytes of text in one `Requirements`, below the 1 MiB that a message may have."""

_SMALLEST_SHARE = 2_000
"""Bytes; with so many files that each would get less, whole files are left out instead."""

_SKIPPED_FOLDERS = frozenset({"node_modules", "site-packages", "__pycache__", "venv"})
_OVERHEAD = 32


@dataclass(frozen=True, slots=True)
class Prepared:
    """Documents that fit one message.

    Attributes:
        title: Heading for the digest.
        documents: In reading order.
        left_out: Sentences for people on what is not in the documents; empty if everything is.
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


def load_documents(path: Path | str) -> list[Document]:
    """Read a .md or .txt file, or all of them in a folder and below it.

    In a folder, READMEs come first, then files by name, then subfolders; hidden folders, installed packages,
    empty and binary files are passed over. Bytes that are not UTF-8 become replacement characters.

    Args:
        path: A file or a folder.

    Returns:
        At least one document, each with some text.

    Raises:
        DocumentError: The file is missing, of another kind, unreadable, binary or empty; or the folder holds
            none.
    """
    documents, _ = _load(Path(path))
    return documents


def prepare(paths: Path | str | Sequence[Path | str], limit_bytes: int = LIMIT_BYTES) -> Prepared:
    """Read files and folders and make them fit one message.

    Too much text is thinned out: every document keeps a fair share, small ones whole, and of a long one
    paragraphs from all over it. The same files give the same documents everywhere.

    Args:
        paths: One path or several.
        limit_bytes: Most bytes of UTF-8 that the documents may have together, names included.

    Returns:
        The documents, and what was left out.

    Raises:
        DocumentError: One of the paths cannot be used.
    """
    given = [Path(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)]
    documents: list[Document] = []
    left_out: list[str] = []
    for path in given:
        found, skipped = _load(path)
        documents += found
        left_out += skipped
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


def _load(path: Path) -> tuple[list[Document], list[str]]:
    if path.is_dir():
        return _load_folder(path)
    if not path.exists():
        raise DocumentMissingError(str(path))
    # A pipe would be waited for, with nobody on the other side.
    if path.suffix.lower() not in ENDINGS or not path.is_file():
        raise DocumentKindError(str(path))
    return _read(path, path.name)


def _load_folder(folder: Path) -> tuple[list[Document], list[str]]:
    documents: list[Document] = []
    skipped: list[str] = []
    files = list(_files(folder))
    for path in files[:MAX_FILES]:
        name = path.relative_to(folder).as_posix()
        try:
            found, notes = _read(path, name)
        except DocumentError as error:
            skipped.append(f"{name}: {_SKIP_REASON.get(type(error), 'unreadable')}.")
            continue
        documents += found
        skipped += notes
    if not documents:
        raise NoDocumentsError(str(folder), skipped)
    if len(files) > MAX_FILES:
        skipped.append(f"{len(files) - MAX_FILES:,} files after the first {MAX_FILES:,}.")
    return documents, skipped


_SKIP_REASON: dict[type[DocumentError], str] = {DocumentEmptyError: "empty", DocumentBinaryError: "not text"}


def _files(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _SKIPPED_FOLDERS
        )
        wanted = [name for name in names if name.lower().endswith(ENDINGS) and not name.startswith(".")]
        for name in sorted(wanted, key=lambda name: (not name.lower().startswith("readme"), name)):
            path = Path(root, name)
            if path.is_file():
                yield path


def _read(path: Path, name: str) -> tuple[list[Document], list[str]]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise DocumentUnreadableError(str(path), error.strerror or type(error).__name__) from error
    text = _decoded(path, data[:MAX_FILE_BYTES])
    if not text.strip():
        raise DocumentEmptyError(str(path))
    # A file name that is not valid UTF-8 arrives with surrogates, which no message can carry.
    name = name.encode("utf-8", "replace").decode("utf-8")
    notes = (
        [f"{name}: everything after the first {MAX_FILE_BYTES:,} bytes."]
        if len(data) > MAX_FILE_BYTES
        else []
    )
    return [Document(name=name, text=text)], notes


def _decoded(path: Path, data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if b"\0" in data:
        raise DocumentBinaryError(str(path))
    return data.decode("utf-8-sig", "replace")


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
