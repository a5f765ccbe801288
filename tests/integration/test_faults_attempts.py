"""Handlers that fail or end their process: attempts, then a dead letter that says everything, and replay."""

from __future__ import annotations

import time

import pytest

from callboard.broker.redis.operations import deadletters
from callboard.broker.redis.operations.inspect import overview
from tests.helpers.eventually import eventually
from tests.helpers.jobs import Behaviour
from tests.helpers.worker_fleet import WorkerFleet

ATTEMPTS = 3
DEATHS = 2 * ATTEMPTS - 1  # processes that a message ends: twice among others, then alone
WORDS: dict[Behaviour, tuple[str, str]] = {
    "raise": ("failed", "JobFailedError"),
    "exit": ("crashed", "the worker died"),
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

    await eventually(there_is_a_letter, within=60)
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
    attempts = [one.attempt for one in fleet.ledger.executions() if (one.key, one.seq) == ("a", bad)]
    if behaviour == "exit":  # a death counts once it is known which message was it
        assert len(attempts) <= DEATHS
        attempts = sorted(set(attempts))
    assert attempts == [1, 2, 3]
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

    await eventually(over, within=90, what=worker.output)
    await fleet.settled()
    letters = fleet.ledger.letters("job")
    assert sorted(letter["key"] for letter in letters) == ["poison15", "poison25", "poison5"]
    assert len({(one.key, one.seq) for one in fleet.ledger.effects()}) == 30 == fleet.ledger.count()


async def test_of_fifty_messages_and_one_that_ends_its_process_only_that_one_becomes_a_dead_letter(
    fleet: WorkerFleet,
) -> None:
    """Nobody is told of the deaths: leases end, and the next worker finds out."""
    for number in range(50):
        if number == 25:
            await fleet.publish("poison", "exit")
        await fleet.publish(f"g{number}", seconds=0.01)
    fleet.worker("job")

    async def over() -> bool:
        if not fleet.workers[-1].is_alive:
            fleet.worker("job")
        return len(fleet.ledger.letters("job")) >= 1 and fleet.ledger.count() >= 50

    await eventually(over, within=90, what="a dead letter and fifty effects")
    await fleet.settled()
    (letter,) = fleet.ledger.letters("job")
    assert (letter["key"], letter["reason"], letter["attempts"]) == ("poison", "crashed", str(ATTEMPTS))
    assert {one.attempt for one in fleet.ledger.executions() if one.key != "poison"} == {1}
    assert len({(one.key, one.seq) for one in fleet.ledger.effects()}) == 50 == fleet.ledger.count()
    starts = [one for one in fleet.ledger.executions() if one.key == "poison"]
    assert ATTEMPTS <= len(starts) <= DEATHS


async def test_where_one_attempt_is_allowed_a_kill_spends_none_of_what_had_not_begun(
    fleet: WorkerFleet,
) -> None:
    once = {"CALLBOARD_MAX_ATTEMPTS": "1", "CALLBOARD_CONCURRENCY": "1", "CALLBOARD_PREFETCH": "64"}
    doomed = await fleet.ready_worker("job", environ=once)
    await fleet.publish_many(400, keys=100)  # so that it expects to do much in little time, and holds much
    for number in range(50):
        await fleet.publish(f"slow{number}", seconds=0.05)

    async def holds_much() -> bool:
        held = [worker.held for worker in (await overview(fleet.publisher.transport)).workers]
        return sum(held) > 3 and any(one.key.startswith("slow") for one in fleet.ledger.executions())

    await eventually(holds_much)
    doomed.kill()
    await fleet.ready_worker("job", environ=once)
    await fleet.effects(450, within=40)
    await fleet.settled()
    assert fleet.ledger.letters("job") == []
    fleet.ledger.check("job", fleet.published)


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
