"""Workers that are told to stop: what runs ends, what does not end moves elsewhere without counting."""

from __future__ import annotations

import signal

from tests.helpers.eventually import eventually
from tests.helpers.worker_fleet import WorkerFleet


async def test_handlers_of_two_seconds_end_before_the_process_does(fleet: WorkerFleet) -> None:
    draining = await fleet.ready_worker("job")
    for key in "abc":
        await fleet.publish(key, seconds=2.0)
    await eventually(lambda: len(fleet.ledger.executions()) == 3)
    for key in "abc":
        await fleet.publish(key, seconds=0.0)
    draining.signal(signal.SIGTERM)
    other = await fleet.ready_worker("job")
    assert await draining.ended(within=10) == 0
    await fleet.effects(6)
    await fleet.settled()
    fleet.ledger.check("job", fleet.published)
    executions = fleet.ledger.executions()
    assert [one.attempt for one in executions] == [1] * 6, "nothing ran twice"
    assert {one.pid for one in executions if one.seq == 0} == {draining.pid}
    assert {one.pid for one in executions if one.seq == 1} == {other.pid}, "it took nothing new"


async def test_past_the_grace_period_the_rest_moves_elsewhere_and_counts_no_attempt(
    fleet: WorkerFleet,
) -> None:
    draining = await fleet.ready_worker("job", environ={"CALLBOARD_DRAIN_GRACE": "0.5"})
    for key in "abc":
        await fleet.publish(key, seconds=60.0)
    await eventually(lambda: len(fleet.ledger.executions()) == 3)
    other = await fleet.ready_worker("job", environ={"PACE": "0"})
    draining.signal(signal.SIGTERM)
    assert await draining.ended(within=20) == 0
    await eventually(lambda: len(fleet.ledger.executions()) == 6)
    again = fleet.ledger.executions()[3:]
    assert [one.attempt for one in again] == [1] * 3, "given back, not reaped when the lease ended"
    assert {one.pid for one in again} == {other.pid}
    await fleet.effects(3)
    await fleet.settled()
    fleet.ledger.check("job", fleet.published)


async def test_a_rolling_restart_under_load_repeats_nothing(fleet: WorkerFleet) -> None:
    workers = [await fleet.ready_worker("job") for _ in range(2)]
    await fleet.publish_many(600, keys=60, seconds=0.02)
    for worker in workers:
        await fleet.ready_worker("job")
        worker.signal(signal.SIGTERM)
        assert await worker.ended() == 0
    await fleet.effects(600, within=20)
    await fleet.settled()
    fleet.ledger.check("job", fleet.published)
    executions = fleet.ledger.executions()
    assert len(executions) == 600
    assert {one.attempt for one in executions} == {1}
