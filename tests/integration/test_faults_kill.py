"""Workers that are killed: nothing lost, nothing committed twice, every key in order, and soon."""

from __future__ import annotations

import asyncio
import random
import time

from tests.helpers.processes import Process
from tests.helpers.rigging import Site

DEFAULT_REDELIVERY = 6.0  # seconds


async def test_ten_kills_over_nine_hundred_messages(site: Site) -> None:
    chance = random.Random(7)
    workers = [await site.ready_worker("job", short=False) for _ in range(2)]
    for number in range(900):
        await site.publish(f"k{number % 90}", seconds=0.2)
        if number % 85 == 60:
            victim = chance.randrange(2)
            workers[victim].kill()
            workers[victim] = site.worker("job", short=False)
        await asyncio.sleep(1 / 75)
    killed_at = time.time()
    await site.effects(900, within=40)
    await site.settled()
    site.ledger.check("job", site.published)
    assert time.time() - killed_at < 30
    assert sum(not worker.is_alive for worker in site.workers) == 10


async def test_a_killed_workers_job_is_done_by_another_within_six_seconds_on_an_idle_system(
    site: Site,
) -> None:
    """With default settings and without anything new being published."""
    doomed = await site.ready_worker("job", short=False)
    await site.publish("a", seconds=2.0)
    await _started(site, doomed)
    other = await site.ready_worker("job", short=False)
    doomed.kill()
    killed_at = time.time()
    await site.effects(1, within=DEFAULT_REDELIVERY + 4)
    first, second = site.ledger.executions()
    assert second.at - killed_at <= DEFAULT_REDELIVERY
    assert (first.attempt, second.attempt) == (1, 2)
    assert second.pid == other.pid
    await site.settled()
    site.ledger.check("job", site.published)


async def test_a_new_worker_takes_over_from_one_that_died_alone(site: Site) -> None:
    doomed = await site.ready_worker("job")
    await site.publish_many(50, keys=10, seconds=0.5)
    await _started(site, doomed)
    doomed.kill()
    await site.ready_worker("job")
    await site.effects(50)
    await site.settled()
    site.ledger.check("job", site.published)


async def _started(site: Site, worker: Process) -> None:
    from tests.helpers.eventually import eventually

    await eventually(lambda: any(one.pid == worker.pid for one in site.ledger.executions()))
