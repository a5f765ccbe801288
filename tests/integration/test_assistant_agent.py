"""An AssistantAgent whose worker is killed in the middle of a turn: the next one goes on there; nothing is paid twice."""

from __future__ import annotations

import pytest

from tests.helpers.eventually import eventually
from tests.helpers.processes import Process, python
from tests.helpers.worker_fleet import SHORT_LEASE, WorkerFleet


def worker(fleet: WorkerFleet) -> Process:
    """A worker process of tests.helpers.assisting."""
    environ = {**SHORT_LEASE, "LEDGER": str(fleet.ledger.file)}
    process = Process(python("-m", "tests.helpers.assisting", fleet.url, fleet.namespace), environ)
    fleet.workers.append(process)
    return process


@pytest.mark.parametrize(
    ("killed_in", "asked"),
    [
        ("tool", {"first": [1], "tool": [1, 2], "second": [2]}),
        ("told", {"first": [1], "tool": [1], "second": [2]}),
        ("model", {"first": [1], "tool": [1], "second": [1, 2]}),
    ],
)
async def test_only_what_was_cut_off_is_done_again(
    fleet: WorkerFleet, killed_in: str, asked: dict[str, list[int]]
) -> None:
    doomed = worker(fleet)
    await doomed.says("works as")
    await fleet.publish("a", topic=killed_in)
    last = "second" if killed_in == "model" else "tool"
    await eventually(lambda: fleet.ledger.executions(last), 15, what=doomed.output)
    doomed.kill()
    worker(fleet)
    await fleet.effects(1)
    await fleet.settled(killed_in)
    assert {what: [one.attempt for one in fleet.ledger.executions(what)] for what in asked} == asked
    assert [effect.total for effect in fleet.ledger.effects()] == [4]
