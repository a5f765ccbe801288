"""Documents in long-term memory: read from files, cut into pieces, and imported into a store."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .base import MemoryContent, MemoryMimeType
from .embedders import TextLimit
from .errors import MemoryUnusableError, setting_error
from .stores import MemoryStore

__all__ = []


ENDINGS = (".md", ".markdown", ".txt")
MAX_FILES = 5_000
"""Files that are read of a folder, in order; the rest is left out and named as such."""

MAX_FILE_BYTES = 8_000_000
"""Bytes that are read of a file; of a longer one, the rest is left out."""

_SKIPPED_FOLDERS = frozenset({"node_modules", "site-packages", "__pycache__", "venv"})


_IN_FOLDER = {"is empty": "empty", "is not text": "not text"}
"""Why a file of a folder is left out, by the verdict on it alone; else it is unreadable."""


@dataclass(frozen=True, slots=True)
class Document:
    """One text.

    Attributes:
        name: The file's name; of a file in a folder, its path from there, with `/`.
        text: The whole text.
    """

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents of a file or folder.

    Attributes:
        found: In reading order; at least one, each with some text.
        left_out: Sentences on everything that is not among them; empty if nothing is missing.
    """

    found: tuple[Document, ...]
    left_out: tuple[str, ...]


def load_documents(path: Path | str) -> Documents:
    """Reads a .md or .txt file, or all of them in a folder and below it.

    In a folder, READMEs come first, then files by name, then subfolders; hidden folders, installed packages,
    empty and binary files are passed over. Bytes that are not UTF-8 become replacement characters.

    Args:
        path: A file or a folder.

    Raises:
        MemoryUnusableError: The file is missing, of another kind, unreadable, binary or empty; or the folder holds none.
    """
    path = Path(path)
    if path.is_dir():
        return _load_folder(path)
    if not path.exists():
        raise MemoryUnusableError(
            str(path), "does not exist", "give a .md or .txt file, or a folder that holds some"
        )
    # Opening a pipe would wait until some other process writes to it.
    if path.suffix.lower() not in ENDINGS or not path.is_file():
        raise MemoryUnusableError(
            str(path), "is neither a .md nor a .txt file", "give one of these, or a folder that holds some"
        )
    document, notes = _read(path, path.name)
    return Documents((document,), tuple(notes))


def _load_folder(folder: Path) -> Documents:
    documents: list[Document] = []
    left_out: list[str] = []
    files = list(_files(folder))
    for path in files[:MAX_FILES]:
        name = path.relative_to(folder).as_posix()
        try:
            document, notes = _read(path, name)
        except MemoryUnusableError as error:
            left_out.append(f"{name}: {_IN_FOLDER.get(error.verdict, 'unreadable')}.")
            continue
        documents.append(document)
        left_out += notes
    if not documents:
        passed_over = f"passed over were {' '.join(left_out[:3])}" if left_out else "give another folder"
        raise MemoryUnusableError(str(folder), "holds no .md or .txt file with text in it", passed_over)
    if len(files) > MAX_FILES:
        left_out.append(f"{len(files) - MAX_FILES:,} files after the first {MAX_FILES:,}.")
    return Documents(tuple(documents), tuple(left_out))


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


def _read(path: Path, name: str) -> tuple[Document, list[str]]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        verdict = f"cannot be read ({error.strerror or type(error).__name__})"
        raise MemoryUnusableError(str(path), verdict, "check its permissions") from error
    text = _decoded(path, data[:MAX_FILE_BYTES])
    if not text.strip():
        raise MemoryUnusableError(str(path), "is empty", "give a file with some text in it")
    # A file name that is not valid UTF-8 arrives with surrogates, which no message can carry.
    name = name.encode("utf-8", "replace").decode("utf-8")
    is_cut = len(data) > MAX_FILE_BYTES
    return Document(name, text), [f"{name}: everything after the first {MAX_FILE_BYTES:,} bytes."] * is_cut


def _decoded(path: Path, data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if b"\0" in data:
        raise MemoryUnusableError(
            str(path), "is not text", "it contains zero bytes; save it as UTF-8 text first"
        )
    return data.decode("utf-8-sig", "replace")


HEADING: Final = re.compile(r" {0,3}(#{1,6})\s+(.*?)\s*#*\s*\Z")
FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
SENTENCE_END: Final = re.compile(r"(?<=[.!?…。！？])[\"'”’)\]]*\s+|(?<=[。！？])")
ABBREVIATION: Final = re.compile(
    r"\b(?:[A-Za-z]|e\.g|i\.e|etc|vs|cf|ca|approx|Mr|Mrs|Ms|Dr|Prof|St|No|Fig|Sec)\.\Z"
)
BETWEEN: Final = " › "
"""Between the headings above a piece."""

TOKENS: Final = (
    256  # in a piece at most, unless more are asked for: a vector of more says less about each of them
)

CHARACTERS: Final = 1_000  # where there are no tokens to count

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkSettings:
    """The length of pieces.

    Attributes:
        size: most units in a piece, its headings included.
        overlap: most units of whole sentences that a piece repeats of the one before it in the same section.
        count: how many units a text has; default: characters. `ChunkSettings.reading(limit)` counts tokens of a model.

    Raises:
        MemoryValueError: a value can't work (a ValueError).
    """

    size: int = CHARACTERS
    overlap: int = 150
    count: Count = len

    def __post_init__(self) -> None:
        if self.size < 20:
            raise setting_error("size", str(self.size), "20 or more")
        if not 0 <= self.overlap <= self.size // 2:
            raise setting_error("overlap", str(self.overlap), "between 0 and half of size")

    @classmethod
    def reading(
        cls, limit: TextLimit | None, *, size: int | None = None, overlap: int | None = None
    ) -> ChunkSettings:
        """Pieces that a model reads whole, measured in its tokens; in characters where it has no limit.

        Args:
            limit: of the embedder, see `limit_of`.
            size: None: as much as the model reads, but at most 256 tokens; 1,000 characters.
            overlap: None: an eighth of the size.

        Raises:
            MemoryValueError: a value can't work, such as more tokens than the model reads (a ValueError).
        """
        if limit is not None and size is not None and size > limit.tokens:
            raise setting_error("size", str(size), f"at most the {limit.tokens} tokens that the model reads")
        most = min(limit.tokens, TOKENS) if limit is not None else CHARACTERS
        size = most if size is None else size
        overlap = size // 8 if overlap is None else overlap
        return cls(size=size, overlap=overlap, count=len if limit is None else limit.count)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One piece of a document.

    Attributes:
        text: what to remember: the headings above it on a line of their own, then the piece.
        headings: the headings above it, the outermost first.
        number: from 0, in the order of the document.
    """

    text: str
    headings: tuple[str, ...]
    number: int


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines that belong together: a paragraph, a list or table, or a fence and its lines."""

    text: str
    headings: tuple[str, ...]
    is_code: bool = False


@dataclass(frozen=True, slots=True)
class _Unit:
    """A text that is never cut. `glue` stands between it and the unit before."""

    text: str
    glue: str
    may_repeat: bool


def chunk(text: str, settings: ChunkSettings | None = None) -> list[Chunk]:
    """The pieces of a text.

    A piece never spans two sections of Markdown. It ends at a paragraph where that fits, else at a sentence, else at a
    word; a fence that is too long is cut at lines, and every part of it is a fence again. A heading with nothing below
    it is a piece of its own.

    Args:
        text: Markdown or plain text.
        settings: Sizes.

    Returns:
        The pieces in order; none for a text without words.
    """
    settings = settings or ChunkSettings()
    pieces: list[tuple[tuple[str, ...], str]] = []
    for headings, blocks in _sections(_blocks(text)):
        trail = _trail(headings, settings)
        room = settings.size - (settings.count(f"{trail}\n\n") if trail else 0)
        units = [unit for block in blocks for unit in _units(block, room, settings.count)]
        bodies = list(_pack(units, room, settings))
        pieces += [(headings, f"{trail}\n\n{body}" if trail else body) for body in bodies]
        if trail and not bodies:
            pieces.append((headings, trail))
    return [Chunk(body, headings, number) for number, (headings, body) in enumerate(pieces)]


def _trail(headings: tuple[str, ...], settings: ChunkSettings) -> str:
    """The headings as a line; of long ones only the innermost, cut to a third of a piece."""
    for start in range(len(headings)):
        trail = BETWEEN.join(headings[start:])
        if settings.count(trail) <= settings.size // 3:
            return trail
    return _cut(headings[-1], settings.size // 3, settings.count)[0] if headings else ""


# Reading


def _blocks(text: str) -> Iterator[_Block]:
    """The blocks of a document in order. A fence that is never closed goes on to the end."""
    headings: list[tuple[int, str]] = []
    lines: list[str] = []
    fence = ""
    is_bare = False  # nothing stands below the last heading so far
    for line in [*text.splitlines(), ""]:
        trail = tuple(title for _, title in headings)
        opened = FENCE.match(line)
        if fence:
            lines.append(line)
            if opened and opened[1].startswith(fence) and not line.strip().strip(fence[0]):
                yield _Block("\n".join(lines), trail, is_code=True)
                lines, fence = [], ""
            continue
        heading = HEADING.match(line)
        if lines and (heading or opened or not line.strip()):
            yield _Block("\n".join(lines), trail)
            lines = []
        if heading:
            level = len(heading[1])
            if is_bare and level <= headings[-1][0]:
                yield _Block("", trail)
            is_bare = True
            headings = [*(one for one in headings if one[0] < level), (level, heading[2])]
        elif opened:
            lines, fence, is_bare = [line], opened[1], False
        elif line.strip():
            lines.append(line.rstrip())
            is_bare = False
    if lines or is_bare:
        yield _Block("\n".join(lines).rstrip(), tuple(title for _, title in headings), is_code=bool(fence))


def _sections(blocks: Iterator[_Block]) -> Iterator[tuple[tuple[str, ...], list[_Block]]]:
    """Neighbouring blocks below the same headings."""
    section: list[_Block] = []
    for block in blocks:
        if section and block.headings != section[0].headings:
            yield section[0].headings, section
            section = []
        section.append(block)
    if section:
        yield section[0].headings, section


# Cutting


def _units(block: _Block, room: int, count: Count) -> Iterator[_Unit]:
    if block.is_code:
        for text in _cut_fence(block.text, room, count):
            yield _Unit(text, "\n\n", may_repeat=False)
        return
    glue = "\n\n"
    for line in _lines_that_stand_alone(block.text):
        for part in (part for sentence in _sentences(line) for part in _cut(sentence, room, count)):
            yield _Unit(part, glue, may_repeat=True)
            glue = " "
        glue = "\n"


def _sentences(text: str) -> list[str]:
    """The sentences of a line."""
    found: list[str] = []
    start = 0
    for end in SENTENCE_END.finditer(text):
        if not ABBREVIATION.search(text, start, end.start()):
            found.append(text[start : end.end()].strip())
            start = end.end()
    found.append(text[start:].strip())
    return [sentence for sentence in found if sentence]


def _lines_that_stand_alone(text: str) -> list[str]:
    """Lines of a list, table or quote; the lines of other paragraphs are joined."""
    parts: list[str] = []
    for line in text.split("\n"):
        stands_alone = re.match(r"\s*([-*+•|>]|\d+[.)])(\s|\Z)|\s*\|", line) is not None
        if stands_alone or not parts:
            parts.append(line.strip())
        else:
            parts[-1] += f" {line.strip()}"
    return parts


def _cut(text: str, room: int, count: Count) -> list[str]:
    """A text in parts that fit: cut between words, and inside a word that is too long by itself."""
    if count(text) <= room:
        return [text]
    parts: list[str] = []
    for word in (part for whole in text.split() for part in _cut_word(whole, room, count)):
        joined = f"{parts[-1]} {word}" if parts else word
        if parts and count(joined) <= room:
            parts[-1] = joined
        else:
            parts.append(word)
    return parts


def _cut_word(word: str, room: int, count: Count) -> list[str]:
    if count(word) <= room:
        return [word]
    middle = len(word) // 2
    if not middle:
        return [word]
    return [*_cut_word(word[:middle], room, count), *_cut_word(word[middle:], room, count)]


def _cut_fence(text: str, room: int, count: Count) -> list[str]:
    """A fence in parts that fit, each with the marks around it again."""
    if count(text) <= room:
        return [text]
    opening, *lines = text.split("\n")
    found = FENCE.match(opening)
    mark = found[1] if found else "```"
    if lines and not lines[-1].strip().strip(mark[0]) and lines[-1].strip():
        lines.pop()
    inside = max(1, room - count(f"{opening}\n\n{mark}"))
    parts: list[str] = []
    for line in (part for whole in lines for part in _cut(whole, inside, count)):
        joined = f"{parts[-1]}\n{line}" if parts else line
        if parts and count(joined) <= inside:
            parts[-1] = joined
        else:
            parts.append(line)
    return [f"{opening}\n{part}\n{mark}" for part in parts if part.strip()]


# Packing


def _pack(units: list[_Unit], room: int, settings: ChunkSettings) -> Iterator[str]:
    """Units in pieces that fit. Each begins with the last sentences of the one before it."""
    current: list[_Unit] = []
    fresh = 0
    for unit in units:
        if fresh and settings.count(_joined([*current, unit])) > room:
            yield _joined(current)
            current, fresh = _tail(current, unit, room, settings), 0
        current.append(unit)
        fresh += 1
    if fresh:
        yield _joined(current)


def _tail(units: list[_Unit], following: _Unit, room: int, settings: ChunkSettings) -> list[_Unit]:
    """The last whole sentences that may be repeated in front of `following`."""
    kept: list[_Unit] = []
    for unit in reversed(units):
        longer = [unit, *kept]
        is_short = settings.count(_joined(longer)) <= settings.overlap
        if not unit.may_repeat or not is_short or settings.count(_joined([*longer, following])) > room:
            break
        kept = longer
    return kept


def _joined(units: list[_Unit]) -> str:
    return "".join(unit.text if not number else unit.glue + unit.text for number, unit in enumerate(units))


BATCH = 64  # pieces that are added in one go

SOURCE = "source"
"""Key of the metadata that says which document a memory comes from."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of importing a document.

    Attributes:
        added: pieces that are new.
        unchanged: pieces that were there already.
        removed: pieces that the document had before and has no more.
    """

    added: int
    unchanged: int
    removed: int


async def import_document(
    memory: MemoryStore,
    source: str,
    chunks: Sequence[Chunk],
    advance: Callable[[int], None] = lambda _: None,
) -> Imported:
    """Make a memory hold the pieces of a document, and no others of it.

    A piece is known by its document and its text, so importing a document again adds only new pieces. An import that
    is cancelled, or fails, removes the pieces of this document that it had added.

    Args:
        memory: Where to.
        source: The document's name, kept as `source` in the metadata, with `number` and `heading`.
        chunks: Its pieces.
        advance: Told how many pieces are done since the last call.
    """
    wanted = {content.metadata["id"]: content for content in _contents(source, chunks) if content.metadata}
    before = set(await memory.ids({SOURCE: source}))
    fresh = [content for name, content in wanted.items() if name not in before]
    advance(len(chunks) - len(fresh))
    await _add(memory, fresh, advance)
    stale = sorted(before - set(wanted))
    if stale:
        await memory.delete(stale)
    return Imported(len(fresh), len(wanted) - len(fresh), len(stale))


async def _add(memory: MemoryStore, contents: list[MemoryContent], advance: Callable[[int], None]) -> None:
    started: list[str] = []
    try:
        for start in range(0, len(contents), BATCH):
            batch = contents[start : start + BATCH]
            started += [str((content.metadata or {})["id"]) for content in batch]
            await _to_its_end(asyncio.ensure_future(memory.add_many(batch)))
            advance(len(batch))
    except BaseException:
        await memory.delete(started)
        raise


async def _to_its_end(adding: asyncio.Future[list[str]]) -> None:
    """Await an addition; when this is cancelled, until the addition has ended.

    Otherwise the pieces could arrive after they were removed: the write runs in a thread, or in a memory service, and a
    cancelled wait does not stop it.
    """
    try:
        await asyncio.shield(adding)
    except asyncio.CancelledError:
        await asyncio.wait({adding})
        raise


def _contents(source: str, chunks: Sequence[Chunk]) -> list[MemoryContent]:
    return [
        MemoryContent(
            content=chunk.text,
            mime_type=MemoryMimeType.MARKDOWN,
            metadata={
                "id": _id(source, chunk.text),
                SOURCE: source,
                "number": chunk.number,
                "heading": BETWEEN.join(chunk.headings),
            },
        )
        for chunk in chunks
    ]


def _id(source: str, text: str) -> str:
    return hashlib.blake2b(f"{source}\0{text}".encode(errors="surrogatepass"), digest_size=16).hexdigest()
