"""Repair on a live system: it finds nothing where nothing is wrong, and loses and doubles nothing where much is."""

from __future__ import annotations

import asyncio
import random

import pytest

from callboard.broker.redis.operations.repair import Fault, repair
from tests.helpers.worker_fleet import WorkerFleet

JOBS, KEYS = 600, 40


async def _mend_until(fleet: WorkerFleet, number: int) -> list[Fault]:
    """Repairs again and again, without a pause, until there are so many effects."""
    mended: list[Fault] = []
    async with asyncio.timeout(60):
        while fleet.ledger.count() < number:
            mended += (await repair(fleet.publisher.transport)).mended
    return mended


async def test_repair_in_a_loop_under_load_mends_nothing_and_harms_nothing(fleet: WorkerFleet) -> None:
    for _ in range(3):
        await fleet.ready_worker("job", short=False)
    mending = asyncio.create_task(_mend_until(fleet, JOBS))
    for _ in range(JOBS // 100):
        await fleet.publish_many(100, keys=KEYS, seconds=0.005)
    assert await asyncio.wait_for(mending, 60) == []
    await fleet.settled()
    fleet.ledger.check("job", fleet.published)
    assert fleet.ledger.stats("job").get("reaped", 0) == 0


Command = tuple[str, ...]
EITHER: dict[str, Command] = {
    "worker's lease": ("ZREM", "workers", "{worker}"),
    "keys to be taken": ("DEL", "ready:job"),
    "books of nobody": ("HSET", "own:ghost:1:1", "job topic:jobs 1-1", "k1"),
    "busy mark of nobody": ("HSET", "busy:job", "nobody", "ghost:1:1"),
}
BOOKS: Command = ("DEL", "own:{worker}")
GROUP: Command = ("DESTROY", "topic:jobs", "job")


@pytest.mark.parametrize("also", [BOOKS, GROUP], ids=["books", "group"])
async def test_sabotage_kills_and_repair_at_once(fleet: WorkerFleet, also: Command) -> None:
    """Who holds an entry stands in the worker's books and in the group: with both deleted nothing is left to go by.

    Order is kept unless a worker dies after its books were deleted: then the others take what came later before repair
    comes. What breaks the order at once, such as a deleted busy mark, is in the contract tests.
    """
    chance = random.Random(11)
    workers = [await fleet.ready_worker("job") for _ in range(3)]
    mending = asyncio.create_task(_mend_until(fleet, JOBS))
    for number in range(JOBS // 100):
        await fleet.publish_many(100, keys=KEYS, seconds=0.005)
        for command in (*EITHER.values(), also):
            if chance.random() < 0.4:
                await _break(fleet, command, chance)
        if number % 4 == 1:
            victim = chance.randrange(3)
            workers[victim].kill()
            workers[victim] = await fleet.ready_worker("job")
    mended = await mending
    await fleet.settled()
    await repair(fleet.publisher.transport)
    fleet.ledger.check("job", fleet.published, in_order=also is not BOOKS)
    assert {fault.kind for fault in mended} >= {"worker", "key"}


async def _break(fleet: WorkerFleet, command: Command, chance: random.Random) -> None:
    admin, of = fleet.publisher.transport.admin, fleet.publisher.transport.keys.of
    workers = [name.decode() for name in await admin.command("ZRANGE", of("workers"), 0, -1)]
    name, suffix, *rest = command
    worker = chance.choice(workers) if workers else "nobody:1:1"
    arguments = [word.format(worker=worker) for word in rest]
    words = ("XGROUP", name) if name == "DESTROY" else (name,)
    await admin.command(*words, of(suffix.format(worker=worker)), *arguments)
