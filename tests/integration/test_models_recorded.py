"""A worker that is killed after a model's answer: the worker that goes on has the answer, and nothing is paid again."""

from __future__ import annotations

import pytest

from callboard.broker import BrokerSettings
from callboard.broker.redis.store import RedisStore
from callboard.models import UsageLedger
from tests.helpers.eventually import eventually
from tests.helpers.processes import Process, python
from tests.helpers.worker_fleet import SHORT_LEASE, WorkerFleet


def thinker(fleet: WorkerFleet) -> Process:
    """A worker process of tests.helpers.thinking."""
    environ = {**SHORT_LEASE, "LEDGER": str(fleet.ledger.file)}
    process = Process(python("-m", "tests.helpers.thinking", fleet.url, fleet.namespace), environ)
    fleet.workers.append(process)
    return process


async def killed_after_the_answer(fleet: WorkerFleet, topic: str) -> tuple[Process, Process]:
    """Has a worker killed when it has the answer, and another one finish. Returns both."""
    doomed = thinker(fleet)
    await doomed.says("works as")
    await fleet.publish("a", topic=topic)
    await eventually(lambda: fleet.ledger.executions("answered"), 15, what=doomed.output)
    doomed.kill()
    other = thinker(fleet)
    await fleet.effects(1)
    await fleet.settled(topic)
    return doomed, other


@pytest.mark.parametrize("topic", ["recorded", "streamed"])
async def test_the_answer_is_paid_for_once(fleet: WorkerFleet, topic: str) -> None:
    doomed, other = await killed_after_the_answer(fleet, topic)
    assert [one.pid for one in fleet.ledger.executions("asked")] == [doomed.pid]
    assert [(one.pid, one.attempt) for one in fleet.ledger.executions("answered")] == [
        (doomed.pid, 1),
        (other.pid, 2),
    ]
    assert [effect.total for effect in fleet.ledger.effects()] == [doomed.pid]
    assert await used(fleet) == 1


async def test_an_answer_without_a_record_is_paid_for_twice(fleet: WorkerFleet) -> None:
    doomed, other = await killed_after_the_answer(fleet, "plain")
    assert [one.pid for one in fleet.ledger.executions("asked")] == [doomed.pid, other.pid]
    assert [effect.total for effect in fleet.ledger.effects()] == [other.pid]
    assert await used(fleet) == 2


async def used(fleet: WorkerFleet) -> int:
    """Answers that both processes together have in the ledger on the server."""
    store = RedisStore.at(fleet.url, BrokerSettings(namespace=fleet.namespace))
    spent = await UsageLedger(store).spent()
    store.close()
    return spent.requests
