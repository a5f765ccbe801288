"""Repair on a live system: it finds nothing where nothing is wrong, and loses and doubles nothing where much is."""

from __future__ import annotations

import asyncio
import random

import pytest

from broker.redis.repair import Fault, repair
from tests.helpers.rigging import Site

JOBS, KEYS = 600, 40


async def _mend_until(site: Site, number: int) -> list[Fault]:
    """Repairs again and again, without a pause, until there are so many effects."""
    mended: list[Fault] = []
    async with asyncio.timeout(60):
        while site.ledger.count() < number:
            mended += (await repair(site.publisher.transport)).mended
    return mended


async def test_repair_in_a_loop_under_load_mends_nothing_and_harms_nothing(site: Site) -> None:
    for _ in range(3):
        await site.ready_worker("job", short=False)
    mending = asyncio.create_task(_mend_until(site, JOBS))
    for _ in range(JOBS // 100):
        await site.publish_many(100, keys=KEYS, seconds=0.005)
    assert await asyncio.wait_for(mending, 60) == []
    await site.settled()
    site.ledger.check("job", site.published)
    assert site.ledger.stats("job").get("reaped", 0) == 0


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
async def test_sabotage_kills_and_repair_at_once(site: Site, also: Command) -> None:
    """Who holds an entry stands in the worker's books and in the group: with both deleted nothing is left to go by.

    Order is kept unless a worker dies after its books were deleted: then the others take what came later before repair
    comes. What breaks the order at once, such as a deleted busy mark, is in the contract tests.
    """
    chance = random.Random(11)
    workers = [await site.ready_worker("job") for _ in range(3)]
    mending = asyncio.create_task(_mend_until(site, JOBS))
    for number in range(JOBS // 100):
        await site.publish_many(100, keys=KEYS, seconds=0.005)
        for command in (*EITHER.values(), also):
            if chance.random() < 0.4:
                await _break(site, command, chance)
        if number % 4 == 1:
            victim = chance.randrange(3)
            workers[victim].kill()
            workers[victim] = await site.ready_worker("job")
    mended = await mending
    await site.settled()
    await repair(site.publisher.transport)
    site.ledger.check("job", site.published, in_order=also is not BOOKS)
    assert {fault.kind for fault in mended} >= {"worker", "key"}


async def _break(site: Site, command: Command, chance: random.Random) -> None:
    admin, of = site.publisher.transport.admin, site.publisher.transport.keys.of
    workers = [name.decode() for name in await admin.command("ZRANGE", of("workers"), 0, -1)]
    name, suffix, *rest = command
    worker = chance.choice(workers) if workers else "nobody:1:1"
    arguments = [word.format(worker=worker) for word in rest]
    words = ("XGROUP", name) if name == "DESTROY" else (name,)
    await admin.command(*words, of(suffix.format(worker=worker)), *arguments)
