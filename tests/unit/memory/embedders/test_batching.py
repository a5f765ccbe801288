"""Texts of calls at the same time run together, and each call gets its own vectors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from callboard.memory import EmbeddingModel, HashingEmbedder
from callboard.memory.embedders import LARGEST_BATCH, PART, BatchingEmbedder
from tests.helpers.eventually import eventually

if TYPE_CHECKING:
    from callboard.memory.embedders import Vectors


class Slow:
    """Runs when the test says so, and notes what ran together."""

    def __init__(self) -> None:
        self._inner = HashingEmbedder(32)
        self.batches: list[list[str]] = []
        self.gate = asyncio.Event()
        self.error: Exception | None = None

    async def load(self) -> EmbeddingModel:
        return await self._inner.load()

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.batches.append(list(texts))
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return await self._inner.embed(texts)


async def ask(embedder: BatchingEmbedder, *calls: list[str]) -> list[asyncio.Task[Vectors]]:
    tasks = [asyncio.create_task(embedder.embed(texts)) for texts in calls]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def test_calls_that_come_while_a_batch_runs_are_the_next_batch() -> None:
    slow = Slow()
    embedder = BatchingEmbedder(slow)
    tasks = await ask(embedder, ["a"])
    tasks += await ask(embedder, ["b", "c"], ["d"])
    slow.gate.set()

    vectors = await asyncio.gather(*tasks)

    assert slow.batches == [["a"], ["b", "c", "d"]]
    expected = await HashingEmbedder(32).embed(["b", "c", "d"])
    assert (vectors[1] == expected[:2]).all()
    assert (vectors[2] == expected[2:]).all()
    assert (await embedder.load()).name == "hashing-32"


async def test_a_batch_has_an_end() -> None:
    slow = Slow()
    embedder = BatchingEmbedder(slow)
    tasks = await ask(embedder, ["a"])
    tasks += await ask(embedder, *[[str(number)] for number in range(LARGEST_BATCH + 1)])
    slow.gate.set()
    await asyncio.gather(*tasks)

    assert [len(batch) for batch in slow.batches] == [1, LARGEST_BATCH, 1]


async def test_who_has_many_texts_takes_turns_with_others() -> None:
    slow = Slow()
    embedder = BatchingEmbedder(slow)
    many = [str(number) for number in range(3 * PART + 1)]
    tasks = await ask(embedder, many)
    tasks += await ask(embedder, ["b"])
    slow.gate.set()

    vectors = await asyncio.gather(*tasks)

    assert slow.batches == [
        many[:PART],
        ["b"],
        many[PART : 2 * PART],
        many[2 * PART : 3 * PART],
        many[3 * PART :],
    ]
    assert (vectors[0] == await HashingEmbedder(32).embed(many)).all()


async def test_queries_do_not_wait_for_a_batch() -> None:
    slow = Slow()
    embedder = BatchingEmbedder(slow)
    tasks = await ask(embedder, ["a"])
    query = asyncio.create_task(embedder.queries.embed(["q"]))
    await eventually(lambda: len(slow.batches) == 2)
    slow.gate.set()

    assert len(await query) == len(await tasks[0]) == 1
    assert slow.batches == [["a"], ["q"]]
    assert await embedder.queries.load() == await embedder.load()


async def test_an_error_is_raised_in_the_calls_of_its_batch_only() -> None:
    slow = Slow()
    embedder = BatchingEmbedder(slow)
    slow.error = OSError("no")
    slow.gate.set()
    tasks = await ask(embedder, ["a"], ["b"])
    assert [type(error) for error in await asyncio.gather(*tasks, return_exceptions=True)] == [
        OSError,
        OSError,
    ]

    slow.error = None
    assert len(await embedder.embed(["c"])) == 1


async def test_a_cancelled_call_does_not_end_the_others() -> None:
    slow = Slow()
    embedder = BatchingEmbedder(slow)
    tasks = await ask(embedder, ["a"])
    tasks += await ask(embedder, ["b"], ["c"])
    tasks[1].cancel()
    slow.gate.set()

    assert len(await tasks[0]) == len(await tasks[2]) == 1
    with pytest.raises(asyncio.CancelledError):
        await tasks[1]
