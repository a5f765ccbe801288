"""Batches, with the interleavings of calls that come, are cancelled, or wait when the loop ends."""

from __future__ import annotations

import asyncio

import pytest

from callboard.memory.embedders import Batches


class Doubling:
    """Doubles numbers when the test says so, and notes the batches."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()

    async def __call__(self, batch: list[int]) -> list[int]:
        self.batches.append(batch)
        await self.gate.wait()
        return [2 * number for number in batch]


async def call(batches: Batches[int, int], *numbers: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(batches.add(number)) for number in numbers]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def test_each_call_gets_its_own_result() -> None:
    run = Doubling()
    batches = Batches[int, int](run)
    tasks = await call(batches, 1)
    tasks += await call(batches, 2, 3)
    run.gate.set()

    assert await asyncio.gather(*tasks) == [2, 4, 6]
    assert run.batches == [[1], [2, 3]]


async def test_a_call_that_is_cancelled_while_it_waits_is_left_out() -> None:
    run = Doubling()
    batches = Batches[int, int](run)
    tasks = await call(batches, 1)
    tasks += await call(batches, 2, 3)
    tasks[1].cancel()
    run.gate.set()

    assert await tasks[2] == 6
    assert run.batches == [[1], [3]]


async def test_a_call_after_the_queue_was_empty_starts_it_again() -> None:
    run = Doubling()
    run.gate.set()
    batches = Batches[int, int](run)

    assert [await batches.add(number) for number in (1, 2)] == [2, 4]


async def test_no_call_waits_for_ever_when_the_work_is_cancelled() -> None:
    run = Doubling()
    batches = Batches[int, int](run)
    before = asyncio.all_tasks()
    tasks = await call(batches, 1)
    (work,) = asyncio.all_tasks() - before - set(tasks)
    tasks += await call(batches, 2)
    work.cancel()

    for task in tasks:
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_items_have_sizes_and_a_batch_a_largest_one() -> None:
    run = Doubling()
    batches = Batches[int, int](run, size=lambda number: number, largest=5)
    tasks = await call(batches, 1)
    tasks += await call(batches, 3, 2, 9, 1)
    run.gate.set()
    await asyncio.gather(*tasks)

    assert run.batches == [[1], [3, 2], [9], [1]]
