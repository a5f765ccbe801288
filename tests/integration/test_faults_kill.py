"""Workers that are killed: nothing lost, nothing committed twice, every key in order, and soon."""

from __future__ import annotations

import asyncio
import random
import time

from tests.helpers.eventually import eventually
from tests.helpers.processes import Process
from tests.helpers.worker_fleet import WorkerFleet

DEFAULT_REDELIVERY = 6.0  # seconds


async def test_ten_kills_over_nine_hundred_messages(fleet: WorkerFleet) -> None:
    chance = random.Random(7)
    workers = [await fleet.ready_worker("job", short=False) for _ in range(2)]
    for number in range(900):
        await fleet.publish(f"k{number % 90}", seconds=0.2)
        if number % 85 == 60:
            victim = chance.randrange(2)
            workers[victim].kill()
            workers[victim] = fleet.worker("job", short=False)
        await asyncio.sleep(1 / 75)
    await fleet.effects(900, within=100)
    await fleet.settled()
    fleet.ledger.check("job", fleet.published)
    assert sum(not worker.is_alive for worker in fleet.workers) == 10


async def test_a_killed_workers_job_is_done_by_another_within_six_seconds_on_an_idle_system(
    fleet: WorkerFleet,
) -> None:
    """With default settings and without anything new being published."""
    doomed = await fleet.ready_worker("job", short=False)
    await fleet.publish("a", seconds=60.0)
    await _started(fleet, doomed)
    other = await fleet.ready_worker("job", environ={"PACE": "0"}, short=False)
    doomed.kill()
    killed_at = time.time()
    await fleet.effects(1, within=DEFAULT_REDELIVERY + 20)
    first, second = fleet.ledger.executions()
    assert second.at - killed_at <= DEFAULT_REDELIVERY + 10, (
        "ten seconds for a machine that has other things to do"
    )
    assert (first.attempt, second.attempt) == (1, 2)
    assert second.pid == other.pid
    await fleet.settled()
    fleet.ledger.check("job", fleet.published)


async def test_a_new_worker_takes_over_from_one_that_died_alone(fleet: WorkerFleet) -> None:
    doomed = await fleet.ready_worker("job")
    await fleet.publish_many(50, keys=10, seconds=0.5)
    await _started(fleet, doomed)
    doomed.kill()
    await fleet.ready_worker("job")
    await fleet.effects(50)
    await fleet.settled()
    fleet.ledger.check("job", fleet.published)


async def _started(fleet: WorkerFleet, worker: Process) -> None:
    await eventually(lambda: any(one.pid == worker.pid for one in fleet.ledger.executions()))


async def test_an_agent_with_a_long_queue_and_a_killed_worker_keep_nobody_waiting(fleet: WorkerFleet) -> None:
    """The others do not wait for it, and what was parked behind it comes in order after its worker has died."""
    environ = {"CALLBOARD_CONCURRENCY": "20"}
    for _ in range(80):
        await fleet.publish("hot", seconds=0.05)
    for number in range(20):
        await fleet.publish(f"k{number}")
    doomed = await fleet.ready_worker("job", environ=environ)
    others = {f"k{number}" for number in range(20)}
    await eventually(lambda: others <= {one.key for one in fleet.ledger.effects()})
    done = sum(one.key == "hot" for one in fleet.ledger.effects())
    assert done < 50, "without room for others the last of them come behind eighty"
    doomed.kill()
    await fleet.ready_worker("job", environ=environ)
    await fleet.effects(100, within=30)
    await fleet.settled()
    fleet.ledger.check("job", fleet.published)
