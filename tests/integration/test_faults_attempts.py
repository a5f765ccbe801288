"""Handlers that fail: exactly so many attempts, then a dead letter that says everything, and replay."""

from __future__ import annotations

import time

import pytest

from callboard.broker.redis.operations import deadletters
from tests.helpers.eventually import eventually
from tests.helpers.jobs import Behaviour
from tests.helpers.worker_fleet import WorkerFleet

ATTEMPTS = 3
WORDS: dict[Behaviour, tuple[str, str]] = {
    "raise": ("failed", "JobFailedError"),
    "exit": ("crashed", "worker died"),
    "hang": ("failed", "MaxRuntimeError"),
}


async def _letter(fleet: WorkerFleet, agent_type: str) -> dict[str, str]:
    await eventually(
        lambda: fleet.ledger.letters(agent_type), within=20, what=lambda: fleet.workers[-1].output()[-3000:]
    )
    (letter,) = fleet.ledger.letters(agent_type)
    return letter


async def _keep_working(fleet: WorkerFleet, agent_type: str) -> None:
    """What a supervisor does: starts a worker again when it is gone, until there is a letter."""
    worker = fleet.worker(agent_type)

    async def there_is_a_letter() -> bool:
        nonlocal worker
        if not worker.is_alive:
            await _bury(fleet, worker.pid)
            worker = fleet.worker(agent_type)
        return bool(fleet.ledger.letters(agent_type))

    await eventually(there_is_a_letter, within=20)
    if not worker.is_alive:
        await fleet.ready_worker(agent_type)


async def _bury(fleet: WorkerFleet, pid: int) -> None:
    import socket

    await fleet.publisher.transport.admin.run("leave", ("1", "", f"{socket.gethostname()}:{pid}:"))


@pytest.mark.parametrize("behaviour", ["raise", "exit", "hang"])
async def test_exact_attempts_then_a_dead_letter_with_its_history(
    fleet: WorkerFleet, behaviour: Behaviour
) -> None:
    agent_type = "limited" if behaviour == "hang" else "job"
    topic = "limited" if behaviour == "hang" else "jobs"
    began = time.time() * 1000
    bad = await fleet.publish("a", behaviour, topic=topic)
    good = await fleet.publish("a", topic=topic)
    elsewhere = await fleet.publish("b", topic=topic)
    await _keep_working(fleet, agent_type)
    letter = await _letter(fleet, agent_type)
    await fleet.effects(2)
    await fleet.settled(agent_type)
    executions = [one for one in fleet.ledger.executions() if (one.key, one.seq) == ("a", bad)]
    assert [one.attempt for one in executions] == [1, 2, 3]
    reason, error = WORDS[behaviour]
    assert letter["reason"] == reason
    assert error in letter["error"]
    assert letter["attempts"] == str(ATTEMPTS)
    assert letter["type"] == "Job"
    assert letter["key"] == "a"
    assert letter["stream"] == f"topic:{topic}"
    assert began - 1000 <= int(letter["first"]) <= int(letter["last"]) <= time.time() * 1000 + 1000
    assert letter["worker"]
    if behaviour != "exit":
        assert "Traceback" in letter["traceback"]
        assert "jobs.py" in letter["traceback"]
    done = {(one.key, one.seq) for one in fleet.ledger.effects()}
    assert done == {("a", good), ("b", elsewhere)}
    assert len([one for one in fleet.ledger.executions() if one.seq == good and one.key == "a"]) == 1


async def test_replaying_twice_by_mistake_handles_once(fleet: WorkerFleet) -> None:
    await fleet.ready_worker("job")
    await fleet.publish("a", "raise")
    await _letter(fleet, "job")
    assert len(fleet.ledger.executions()) == ATTEMPTS
    (letter,) = await deadletters.list_letters(fleet.publisher.transport)
    for _ in range(2):
        await deadletters.replay(fleet.publisher.transport, "job", [letter.id])
    await eventually(lambda: len(fleet.ledger.executions()) == 2 * ATTEMPTS)
    await eventually(lambda: len(fleet.ledger.letters("job")) == 1)
    await fleet.settled()
    assert len(fleet.ledger.executions()) == 2 * ATTEMPTS, "it was handled once more, as a new message"
    assert [one.attempt for one in fleet.ledger.executions()] == [1, 2, 3, 1, 2, 3]


async def test_many_messages_that_kill_the_worker_take_nobody_with_them(fleet: WorkerFleet) -> None:
    for number in range(30):
        await fleet.publish(f"g{number}", seconds=0.01)
        if number % 10 == 5:
            await fleet.publish(f"poison{number}", "exit")
    worker = fleet.worker("job")

    async def over() -> bool:
        nonlocal worker
        if not worker.is_alive:
            await _bury(fleet, worker.pid)
            worker = fleet.worker("job")
        return len(fleet.ledger.letters("job")) >= 3 and fleet.ledger.count() >= 30

    await eventually(over, within=40, what=worker.output)
    await fleet.settled()
    letters = fleet.ledger.letters("job")
    assert sorted(letter["key"] for letter in letters) == ["poison15", "poison25", "poison5"]
    assert len({(one.key, one.seq) for one in fleet.ledger.effects()}) == 30 == fleet.ledger.count()


async def test_a_failing_key_waits_and_others_go_on(fleet: WorkerFleet) -> None:
    await fleet.ready_worker("job", environ={"CALLBOARD_RETRY_BASE": "0.5"})
    await fleet.publish("a", "raise")
    await fleet.publish("a")
    for number in range(20):
        await fleet.publish(f"k{number}")
    await fleet.effects(20, within=20)
    assert not fleet.ledger.letters("job")
    await fleet.effects(21)
    assert fleet.ledger.effects()[-1].key == "a"
