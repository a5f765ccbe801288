"""Processes are killed while an agent waits for one that asks it back: each errand counts once."""

from __future__ import annotations

import asyncio
import random

import pytest

from actors import TopicId
from tests.helpers.eventually import eventually
from tests.helpers.jobs import Errand
from tests.helpers.rigging import Site


async def _publish(site: Site, keys: int, each: int, seconds: float) -> dict[str, int]:
    for number in range(each):
        for key in range(keys):
            errand = Errand(seq=number, seconds=seconds)
            await site.publisher.publish_message(errand, TopicId("errands", f"k{key}"))
    return {f"k{key}": each for key in range(keys)}


def _check(site: Site, expected: dict[str, int]) -> None:
    site.ledger.check("asker", expected)
    for effect in site.ledger.effects():
        assert effect.total == effect.seq + 1, "the one who asked saw what was committed"


@pytest.mark.parametrize("victim", ["asker", "helper"])
async def test_one_side_is_killed_while_the_other_works(site: Site, victim: str) -> None:
    workers = {name: await site.ready_worker(name) for name in ("asker", "helper")}
    expected = await _publish(site, keys=1, each=1, seconds=1.0)
    await eventually(lambda: site.ledger.executions("help"))
    workers[victim].kill()
    await site.ready_worker(victim)
    await site.effects(len(expected))
    await site.settled("asker", "helper")
    _check(site, expected)


async def test_both_sides_are_killed_again_and_again(site: Site) -> None:
    chance = random.Random(11)
    names = ["asker", "asker", "helper", "helper"]
    workers = [await site.ready_worker(name) for name in names]
    expected = await _publish(site, keys=12, each=5, seconds=0.1)
    for _ in range(8):
        await asyncio.sleep(0.4)
        place = chance.randrange(len(names))
        workers[place].kill()
        workers[place] = site.worker(names[place])
    await site.effects(60, within=60)
    await site.settled("asker", "helper")
    _check(site, expected)
