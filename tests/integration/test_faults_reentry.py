"""Processes are killed while an agent waits for one that asks it back: each errand counts once."""

from __future__ import annotations

import asyncio
import random

import pytest

from callboard import TopicId
from tests.helpers.eventually import eventually
from tests.helpers.jobs import Errand
from tests.helpers.worker_fleet import WorkerFleet


async def _publish(fleet: WorkerFleet, keys: int, each: int, seconds: float) -> dict[str, int]:
    for number in range(each):
        for key in range(keys):
            errand = Errand(seq=number, seconds=seconds)
            await fleet.publisher.publish_message(errand, TopicId("errands", f"k{key}"))
    return {f"k{key}": each for key in range(keys)}


def _check(fleet: WorkerFleet, expected: dict[str, int]) -> None:
    fleet.ledger.check("asker", expected)
    for effect in fleet.ledger.effects():
        assert effect.total == effect.seq + 1, "the one who asked saw what was committed"


@pytest.mark.parametrize("victim", ["asker", "helper"])
async def test_one_side_is_killed_while_the_other_works(fleet: WorkerFleet, victim: str) -> None:
    workers = {name: await fleet.ready_worker(name) for name in ("asker", "helper")}
    expected = await _publish(fleet, keys=1, each=1, seconds=1.0)
    await eventually(lambda: fleet.ledger.executions("help"))
    workers[victim].kill()
    await fleet.ready_worker(victim)
    await fleet.effects(len(expected))
    await fleet.settled("asker", "helper")
    _check(fleet, expected)


async def test_both_sides_are_killed_again_and_again(fleet: WorkerFleet) -> None:
    chance = random.Random(11)
    names = ["asker", "asker", "helper", "helper"]
    workers = [await fleet.ready_worker(name) for name in names]
    expected = await _publish(fleet, keys=12, each=5, seconds=0.1)
    for _ in range(8):
        await asyncio.sleep(0.4)
        place = chance.randrange(len(names))
        workers[place].kill()
        workers[place] = fleet.worker(names[place])
    await fleet.effects(60, within=60)
    await fleet.settled("asker", "helper")
    _check(fleet, expected)
