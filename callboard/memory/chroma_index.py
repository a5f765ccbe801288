"""Chroma's index of vectors: what it lost, and its files when they can't be read.

Chroma keeps texts and metadata in SQLite, and vectors in a graph, which it writes to files after every thousand changes;
those since then are done again whenever the store is opened. In chromadb 1.5.9 a memory gets lost there in two ways, and is
counted all the same. A process that is killed while the files are written leaves some of them torn, or missing. And where
several threads write at once, as they do when changes are done again, a record may end up without a neighbour that leads to
it: no search comes by, least of all where texts are alike, or records were replaced. Which ones these are changes with each
opening. So what is lost is looked for, and written again: SQLite has the text.
"""

from __future__ import annotations

import logging
import pickle
import shutil
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from .errors import MemoryFailedError

logger = logging.getLogger("callboard.memory")

ChromaHandle: TypeAlias = Any
"""A collection of chromadb, which only chroma_collection.py imports."""

AT_ONCE: Final = 100  # records in one call
NEAR: Final = (
    3  # a record has to be among so many that are nearest to its own vector, or else is asked for by its id
)
MAP: Final = "index_metadata.pickle"  # which record is where in the graph
FILE: Final = "chroma.sqlite3"  # texts and metadata of all memories of a store
PATIENCE: Final = 30.0  # seconds to wait for others who write into it
HEADER: Final = struct.Struct("<i6QiI3Q")
LINKS: Final = struct.Struct("<I")  # bytes of the links that follow, for each vector; or how many follow


class Header(NamedTuple):
    """What an index says of itself, as its file has it.

    Attributes:
        version: of the format.
        offset, room, label, most: of no interest here.
        vectors: how many.
        size: bytes of a vector with its links on the lowest level.
        start: where in these the numbers begin; before them are the links.
        level: the highest.
        entry: the vector on it, where a search begins.
        links: most links of a vector on a level above the lowest.
        lowest: most links of a vector on the lowest level.
    """

    version: int
    offset: int
    room: int
    vectors: int
    size: int
    label: int
    start: int
    level: int
    entry: int
    links: int
    lowest: int
    most: int


def in_batches(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Ids in portions for one call."""
    for start in range(0, len(names), AT_ONCE):
        yield names[start : start + AT_ONCE]


def lost_of(handle: ChromaHandle, names: Sequence[str], failure: type[Exception]) -> list[str]:
    """Those ids whose records no search finds; one that was deleted meanwhile is none of them.

    Args:
        handle: The collection.
        names: Ids of some of its records.
        failure: What Chroma raises for a record whose vector it does not have, without saying which it is.
    """
    try:
        got = handle.get(ids=list(names), include=["embeddings"])
    except failure:
        if len(names) == 1:
            return list(names)
        middle = len(names) // 2
        return [
            *lost_of(handle, names[:middle], failure),
            *lost_of(handle, names[middle:], failure),
        ]
    vectors = dict(zip(got["ids"], got["embeddings"], strict=True))
    return [name for name in _far(handle, vectors) if not _is_reached(handle, name, vectors[name], failure)]


def _far(handle: ChromaHandle, vectors: dict[str, Any]) -> list[str]:
    """Those that are not among the nearest to their own vectors: lost, or the same as others."""
    if not vectors:
        return []
    found = handle.query(query_embeddings=list(vectors.values()), n_results=NEAR, include=[])["ids"]
    return [name for name, near in zip(vectors, found, strict=True) if name not in near]


def _is_reached(handle: ChromaHandle, name: str, vector: Any, failure: type[Exception]) -> bool:
    try:
        found = handle.query(query_embeddings=[vector], ids=[name], n_results=1, include=[])
    except failure:
        return False
    return bool(found["ids"][0])


class _Plain(pickle.Unpickler):
    """Reads numbers, texts and what holds them, and makes no objects of classes."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name}")


def drop_unreadable(folder: Path) -> list[str]:
    """Delete the indexes of a store that can't be read, before it is opened.

    Of one that is torn Chroma may refuse even the texts, or read past its end, which kills the process.

    Returns:
        The names of their folders.
    """
    dropped = []
    for file in folder.glob(f"*/{MAP}"):
        if not _is_whole(file):
            shutil.rmtree(file.parent)
            dropped.append(file.parent.name)
            logger.warning("the index %s is torn: it is made again from the texts", file.parent)
    return dropped


def _is_whole(file: Path) -> bool:
    """Whether the files of an index have all that they name; those of an unknown version are for Chroma to judge."""
    try:
        with file.open("rb") as opened:
            places = _Plain(opened).load()["id_to_label"]
        header = Header(*HEADER.unpack_from((file.parent / "header.bin").read_bytes()))
        if header.version != 1:
            return True
        lengths = (file.parent / "length.bin").stat().st_size
        return (
            lengths >= header.vectors * 4
            and len(places) <= header.vectors
            and _leads_nowhere_else(file.parent, header)
        )
    except (OSError, ValueError, LookupError, TypeError, EOFError, struct.error, pickle.UnpicklingError):
        return False


def _leads_nowhere_else(folder: Path, header: Header) -> bool:
    """Whether every link leads to a vector that is there, on a level that it has: Chroma follows them unchecked."""
    import numpy as np

    count = header.vectors
    levels = np.zeros(count, dtype=np.int64)
    above = (folder / "link_lists.bin").read_bytes()
    block = 4 + 4 * header.links  # how many, and where to; a vector has one for each level above the lowest
    links: list[tuple[int, Any]] = []
    place = 0
    for number in range(count):
        (size,) = LINKS.unpack_from(above, place)
        levels[number] = size // block
        for level in range(size // block):
            start = place + LINKS.size + level * block
            (known,) = LINKS.unpack_from(above, start)
            links.append((level + 1, np.frombuffer(above, np.uint32, known & 0xFFFF, start + 4)))
        place += LINKS.size + size
    if len(above) < place or (count and (header.entry >= count or levels[header.entry] != header.level)):
        return False
    rows = np.fromfile(folder / "data_level0.bin", np.uint8, count * header.size).reshape(count, header.size)
    known = rows[:, :2].copy().view(np.uint16)
    lowest = rows[:, 4 : header.start].copy().view(np.uint32)
    links.append((0, lowest[np.arange(lowest.shape[1]) < known]))
    return bool((known <= lowest.shape[1]).all()) and all(
        (there < count).all() and (levels[there] >= level).all() for level, there in links
    )


def drop_index(folder: Path, collection: str) -> None:
    """Delete the index of one collection, before its store is opened.

    Args:
        folder: Of the store.
        collection: Chroma's id of the collection.
    """
    with closing(sqlite3.connect(folder / FILE)) as database:
        query = "select id from segments where collection = ? and scope = 'VECTOR'"
        for (segment,) in database.execute(query, (collection,)).fetchall():
            shutil.rmtree(folder / segment, ignore_errors=True)


def write_anew(folder: Path) -> bool:
    """Write the file of a store anew: SQLite leaves the texts of deleted memories in it, and Chroma their vectors beside it.

    A process may do so while another one has the store open: SQLite keeps them apart, and the other one waits. Not one that
    has it open itself: Chroma brings a SQLite of its own, and two in one process know nothing of each other's locks.

    Args:
        folder: Of the store.

    Returns:
        False: there is no store in the folder.

    Raises:
        MemoryFailedError: It could not be written, for example because the disk is full.
    """
    if not (folder / FILE).is_file():
        return False
    # Looked for first: a collection is in the file before it has a folder, so one that begins meanwhile is known.
    indexes = [path.parent for path in folder.glob("*/data_level0.bin")]
    try:
        with closing(sqlite3.connect(folder / FILE, timeout=PATIENCE, isolation_level=None)) as database:
            database.execute("vacuum")
            known = {segment for (segment,) in database.execute("select id from segments")}
    except sqlite3.Error as error:
        raise MemoryFailedError(
            f"the memories in {folder} are deleted, and their texts are in its file until that can be written anew: {error}"
        ) from error
    for index in indexes:
        if index.name not in known:
            shutil.rmtree(index, ignore_errors=True)
    return True
