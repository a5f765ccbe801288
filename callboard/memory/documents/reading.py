"""Reads .md and .txt files, alone or in folders, as documents."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from callboard.memory.errors import LongTermMemoryError

ENDINGS = (".md", ".markdown", ".txt")
MAX_FILES = 5_000
"""Files that are read of a folder, in order; the rest is left out and named as such."""

MAX_FILE_BYTES = 8_000_000
"""Bytes that are read of a file; of a longer one, the rest is left out."""

_SKIPPED_FOLDERS = frozenset({"node_modules", "site-packages", "__pycache__", "venv"})


class DocumentError(LongTermMemoryError):
    """A file or folder can't be read as documents.

    Attributes:
        path: The file or folder as it was given.
        reason: The rest of the sentence, and what to do.
        in_folder: The reason that is given when such a file of a folder is left out.
    """

    template = "{path} {reason}"

    path: str
    reason: str
    in_folder: str = "unreadable"


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
        DocumentError: The file is missing, of another kind, unreadable, binary or empty; or the folder holds none.
    """
    path = Path(path)
    if path.is_dir():
        return _load_folder(path)
    if not path.exists():
        raise DocumentError(
            str(path), "does not exist. Give a .md or .txt file, or a folder that holds some."
        )
    # Opening a pipe would wait until some other process writes to it.
    if path.suffix.lower() not in ENDINGS or not path.is_file():
        raise DocumentError(
            str(path), "is neither a .md nor a .txt file. Give one of these, or a folder that holds some."
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
        except DocumentError as error:
            left_out.append(f"{name}: {error.in_folder}.")
            continue
        documents.append(document)
        left_out += notes
    if not documents:
        passed_over = f" Passed over: {' '.join(left_out[:3])}" if left_out else ""
        raise DocumentError(str(folder), f"holds no .md or .txt file with text in it.{passed_over}")
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
        raise DocumentError(
            str(path), f"cannot be read ({error.strerror or type(error).__name__}). Check its permissions."
        ) from error
    text = _decoded(path, data[:MAX_FILE_BYTES])
    if not text.strip():
        raise DocumentError(str(path), "is empty. Give a file with some text in it.", "empty")
    # A file name that is not valid UTF-8 arrives with surrogates, which no message can carry.
    name = name.encode("utf-8", "replace").decode("utf-8")
    is_cut = len(data) > MAX_FILE_BYTES
    return Document(name, text), [f"{name}: everything after the first {MAX_FILE_BYTES:,} bytes."] * is_cut


def _decoded(path: Path, data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if b"\0" in data:
        raise DocumentError(
            str(path), "is not text (it contains zero bytes). Save it as UTF-8 text first.", "not text"
        )
    return data.decode("utf-8-sig", "replace")
