"""Importing documents into a store: again and again, and only changed pieces are embedded."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from callboard.memory.base import MemoryContent, MemoryMimeType
from callboard.memory.stores.base import MemoryStore

from .chunking import BETWEEN, Chunk

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
