"""Workers that are told to stop: what runs ends, what does not end moves elsewhere without counting."""

from __future__ import annotations

import signal
import time

from tests.helpers.eventually import eventually
from tests.helpers.rigging import Site


async def test_handlers_of_five_seconds_end_before_the_process_does(site: Site) -> None:
    draining = await site.ready_worker("job")
    for key in "abc":
        await site.publish(key, seconds=5.0)
    await eventually(lambda: len(site.ledger.executions()) == 3)
    for key in "abc":
        await site.publish(key, seconds=0.0)
    draining.signal(signal.SIGTERM)
    other = await site.ready_worker("job")
    assert await draining.ended(within=10) == 0
    await site.effects(6)
    await site.settled()
    site.ledger.check("job", site.published)
    executions = site.ledger.executions()
    assert [one.attempt for one in executions] == [1] * 6, "nothing ran twice"
    assert {one.pid for one in executions if one.seq == 0} == {draining.pid}
    assert {one.pid for one in executions if one.seq == 1} == {other.pid}, "it took nothing new"


async def test_past_the_grace_period_the_rest_moves_elsewhere_and_counts_no_attempt(site: Site) -> None:
    draining = await site.ready_worker("job", environ={"CALLBOARD_DRAIN_GRACE": "0.5"})
    for key in "abc":
        await site.publish(key, seconds=2.0)
    await eventually(lambda: len(site.ledger.executions()) == 3)
    other = await site.ready_worker("job")
    draining.signal(signal.SIGTERM)
    asked_at = time.time()
    assert await draining.ended(within=5) == 0
    assert time.time() - asked_at < 2.0
    await eventually(lambda: len(site.ledger.executions()) == 6)
    again = site.ledger.executions()[3:]
    assert all(one.at - asked_at < 2.0 for one in again), "at once, not when a lease ends"
    assert [one.attempt for one in again] == [1] * 3
    assert {one.pid for one in again} == {other.pid}
    await site.effects(3)
    await site.settled()
    site.ledger.check("job", site.published)


async def test_a_rolling_restart_under_load_repeats_nothing(site: Site) -> None:
    workers = [await site.ready_worker("job") for _ in range(2)]
    await site.publish_many(600, keys=60, seconds=0.02)
    for worker in workers:
        await site.ready_worker("job")
        worker.signal(signal.SIGTERM)
        assert await worker.ended() == 0
    await site.effects(600, within=20)
    await site.settled()
    site.ledger.check("job", site.published)
    executions = site.ledger.executions()
    assert len(executions) == 600
    assert {one.attempt for one in executions} == {1}
