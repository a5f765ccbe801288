"""Importing again does only what is new; stopping leaves nothing of a document."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from callboard.memory import ChromaDBVectorMemory, HashingEmbedder, InMemoryChromaDBVectorMemoryConfig
from callboard.memory.documents import BATCH, Chunk, ChunkSettings, Imported, chunk, import_document
from tests.unit.memory.contents import text


@pytest.fixture
async def memory() -> AsyncIterator[ChromaDBVectorMemory]:
    made = ChromaDBVectorMemory(InMemoryChromaDBVectorMemoryConfig(), HashingEmbedder())
    yield made
    await made.close()


def pieces(*texts: str) -> list[Chunk]:
    return chunk(
        "\n\n".join(f"# {name}\n\nAbout {name}." for name in texts), ChunkSettings(size=100, overlap=0)
    )


async def test_a_piece_says_where_it_is_from(memory: ChromaDBVectorMemory) -> None:
    done: list[int] = []

    result = await import_document(memory, "a.md", pieces("apples", "pears"), done.append)

    assert result == Imported(added=2, unchanged=0, removed=0)
    (found,) = (await memory.query("pears", k=1)).results
    assert found.content == "pears\n\nAbout pears."
    assert {"source": "a.md", "number": 1, "heading": "pears"}.items() <= (found.metadata or {}).items()
    assert sum(done) == 2


async def test_a_second_import_replaces_changed_pieces(memory: ChromaDBVectorMemory) -> None:
    await memory.add(text("about other things"))
    await import_document(memory, "b.md", pieces("apples"))
    await import_document(memory, "a.md", pieces("apples", "pears"))

    result = await import_document(memory, "a.md", pieces("apples", "figs"))

    assert result == Imported(added=1, unchanged=1, removed=1)
    assert len(await memory.ids({"source": "a.md"})) == 2
    assert (await memory.stats()).count == 4


class Stopping(ChromaDBVectorMemory):
    """Fails, or is stopped, in the second batch."""

    def __init__(self, what: str) -> None:
        super().__init__(InMemoryChromaDBVectorMemoryConfig(), HashingEmbedder())
        self._what = what
        self.begun = asyncio.Event()
        self._batches = 0

    async def add_many(self, contents: Sequence[Any], *arguments: Any, **options: Any) -> list[str]:
        self._batches += 1
        if self._batches == 2:
            self.begun.set()
            await asyncio.sleep(0)
            if self._what == "fail":
                raise OSError("the disk is full")
        return await super().add_many(contents, *arguments, **options)


@pytest.mark.parametrize("what", ["fail", "cancel"])
async def test_an_interrupted_import_leaves_nothing_of_its_document(what: str) -> None:
    memory = Stopping(what)
    many = pieces(*(f"thing{number}" for number in range(BATCH * 3)))
    work = asyncio.create_task(import_document(memory, "a.md", many))
    await memory.begun.wait()
    if what == "cancel":
        work.cancel()

    with pytest.raises(OSError if what == "fail" else asyncio.CancelledError):
        await work

    assert await memory.ids() == []
    await memory.close()
