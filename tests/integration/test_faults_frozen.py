"""Handlers that hold Python's lock (the GIL): no thread of their process runs, its heartbeat neither."""

from __future__ import annotations

import signal

import psutil
import pytest

from tests.helpers.eventually import eventually
from tests.helpers.processes import Process, has_ended
from tests.helpers.worker_fleet import WorkerFleet

LEASE = 1.0  # seconds, see SHORT_LEASE


def _keeper(worker: Process) -> psutil.Process:
    (found,) = psutil.Process(worker.pid).children()
    assert "keeper_process.py" in " ".join(found.cmdline())
    return found


async def test_a_handler_that_holds_the_lock_for_two_leases_is_not_run_again(fleet: WorkerFleet) -> None:
    await fleet.publish("a", "hold", 2.5 * LEASE)
    await fleet.publish("a", seconds=0.0)
    first = fleet.worker("job")
    await eventually(fleet.ledger.executions, within=30, what=first.output)
    await fleet.ready_worker("job")
    await fleet.effects(2)
    await fleet.settled()
    fleet.ledger.check("job", fleet.published)
    executions = fleet.ledger.executions()
    assert [(one.seq, one.attempt) for one in executions] == [(0, 1), (1, 1)]
    assert executions[0].pid == first.pid
    assert not first.lines("fenced")


async def test_the_setting_turns_it_off(fleet: WorkerFleet) -> None:
    worker = await fleet.ready_worker("job", environ={"CALLBOARD_KEEPER": "0"})
    assert psutil.Process(worker.pid).children() == []


async def test_past_max_runtime_the_process_ends_and_in_the_end_there_is_a_dead_letter(
    fleet: WorkerFleet,
) -> None:
    lease = {"CALLBOARD_LEASE": "3600"}  # what a killed worker held is given back without waiting for it
    await fleet.publish("a", "hold", 600.0, topic="brief")
    await fleet.publish("b", topic="brief")
    for _ in range(2):  # a worker that has just begun holds one message, so it is known which one ended it
        worker = fleet.worker("brief", environ=lease)
        assert await worker.ended(within=30) == -signal.SIGKILL
        assert len(worker.lines("holds Python's lock past the max_runtime of a handler")) == 1
    (letter,) = await eventually(lambda: fleet.ledger.letters("brief"))
    assert (letter["reason"], letter["key"], letter["attempts"]) == ("crashed", "a", "2")
    await fleet.ready_worker("brief", environ=lease)
    await fleet.effects(1)
    await fleet.settled("brief")
    assert [one.attempt for one in fleet.ledger.executions() if one.key == "a"] == [1, 2]


async def test_a_killed_worker_leaves_no_keeper(fleet: WorkerFleet) -> None:
    worker = await fleet.ready_worker("job")
    keeper = _keeper(worker)
    worker.kill()
    await eventually(lambda: has_ended(keeper))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_draining_worker_is_kept_to_its_end(fleet: WorkerFleet, number: signal.Signals) -> None:
    """Also where everybody gets the signal, as with `systemctl stop`."""
    worker = await fleet.ready_worker("job")
    keeper = _keeper(worker)
    await fleet.publish("a", "hold", 2.5 * LEASE)
    await eventually(lambda: len(fleet.ledger.executions()) == 1)
    other = await fleet.ready_worker("job")
    keeper.send_signal(number)
    worker.signal(number)
    assert await worker.ended() == 0
    await eventually(lambda: has_ended(keeper))
    await fleet.effects(1)
    assert [one.attempt for one in fleet.ledger.executions()] == [1]
    assert other.is_alive
