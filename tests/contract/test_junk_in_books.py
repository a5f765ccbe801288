"""What a person wrote into keys in which the runtime keeps its books, in the place of what belongs there, stops nobody."""

from __future__ import annotations

import contextlib

import pytest

from callboard.broker.errors import FencedError
from callboard.broker.redis.client.questions import InputStatus
from callboard.broker.redis.library import Mark
from callboard.broker.redis.operations.repair import find, repair
from tests.helpers.asking import AskingFixture
from tests.helpers.commits import Done
from tests.helpers.eventually import eventually
from tests.helpers.server_driver import LEASE, DrivenWorker, ServerDriver, bodies, posting, topic

pytestmark = pytest.mark.real_server("what a command says of such a value is the server's own")

HUGE = "9223372036854775807"  # the largest number that a server knows
JUNK: dict[str, tuple[str, ...]] = {
    "timer without a key": ("ZADD", "timers", "1", "k|counter"),
    "timer of nothing": ("ZADD", "timers", "1", ""),
    "timer without an end": ("ZADD", "timers", "inf", "k|counter|a"),
    "parked": ("LPUSH", "wait:counter:a", "somebody's own"),
    "parked, like a reference": ("LPUSH", "wait:counter:a", "topic:visits x"),
    "read ahead": ("ZADD", "early:counter", "0", "somebody's own"),
    "held": ("HSET", "own:<dying>", "junk", "a"),
    "pulse": ("HSET", "beats", "last", "junk"),
    "chore": ("HSET", "chores", "junk", "0"),
    "place of a chore": ("HSET", "chores", "adopt counter topic:visits", "junk"),
    "counter": ("HSET", "stats:counter", "done", HUGE),
    "resumed": ("HSET", "resumed", "counter", "junk"),
    "accepts": ("HSET", "accepts", "Note", "junk"),
    "call": ("HSET", "worker:<first>", "call", "junk"),
}


@pytest.mark.parametrize("name", JUNK)
async def test_work_goes_on_beside_junk_in_the_books(driver: ServerDriver, name: str) -> None:
    """A worker holds a message with others behind it, one dies, and one joins."""
    await driver.declare(topic("counter", "visits"), topic("counter", "others"))
    first, dying, idle = [await driver.worker("counter") for _ in range(3)]
    await driver.note("topic:visits", "b", "0")
    await dying.take(1)
    await driver.note("topic:visits", "a", "1")
    await first.take(1)
    await driver.note("topic:visits", "a", "2", "3")
    await dying.take()  # is given nothing: it is parked behind the agent
    command, suffix, *rest = JUNK[name]
    await driver.command(command, suffix.replace("<first>", first.name).replace("<dying>", dying.name), *rest)
    await first.beat()
    with contextlib.suppress(FencedError):
        await first.lane.resync()
    await driver.expire(dying)
    await first.beat(lease=0.001)  # patience with who died is over a millisecond later

    async def is_reaped() -> bool:
        await idle.beat(lease=LEASE)  # the first may be fenced by now
        return await driver.command("ZSCORE", "workers", dying.name) is None

    await eventually(is_reaped)
    await driver.publish(posting("topic:others", "c", "4"))
    second = await driver.worker("counter")
    await second.lane.join(["counter"], {"Note": 1})
    done: list[str] = []
    for worker in (first, second) * 4:
        await _work(worker, done)
    await repair(driver.transport)
    for worker in (first, second) * 2:
        await _work(worker, done)
    assert sorted(done) == ["0", "1", "2", "3", "4"]
    assert await driver.letters("counter") == []
    assert await driver.command("HEXISTS", "chores", "junk") == 0


async def _work(worker: DrivenWorker, done: list[str]) -> None:
    held = list(worker.held)
    try:
        await worker.finish_all()
        done += bodies(held)
        await worker.take()
    except FencedError:
        worker.held.clear()
        await worker.lane.join(worker.types)


async def test_a_state_whose_version_is_no_number_is_like_one_that_can_not_be_read(
    driver: ServerDriver,
) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.command("HSET", "state:counter:a", "v", "junk", "d", "{}")
    await driver.note("topic:visits", "a", "1")
    await driver.note("topic:visits", "b", "2")
    assert bodies((await worker.turn(count=10, persistent=True)).deliveries) == ["2"]
    (letter,) = await driver.letters("counter")
    assert letter["error"] == b"state:counter:a: its version is no number"


# Questions


@pytest.mark.parametrize("junk", [("HSET", "kept", HUGE), ("HDEL", "type", "key", "message", "name")])
async def test_a_question_that_was_changed_by_hand_ends_with_its_message(
    driver: ServerDriver, junk: tuple[str, ...]
) -> None:
    scene = await AskingFixture.begin(driver, "1")
    (one,) = await scene.worker.take()
    await scene.ask(one)
    await driver.command(junk[0], "input:1-q", *junk[1:])
    commit = Done(one, Mark.COMMIT + Mark.FORGET + Mark.STATE, (one.envelope.id, 1, b"{}"))
    await scene.worker.turn(commit)
    assert await driver.letters("asker") == []
    assert await driver.command("HGET", "state:asker:a", "v") == b"1"
    assert 0 < await driver.command("PTTL", "input:1-q") <= 86_400_000
    await driver.check_empty("asker")


@pytest.mark.parametrize("what", ["deleted", "withdrawn"])
async def test_who_waits_for_a_question_that_is_gone_is_found_by_a_repair(
    driver: ServerDriver, what: str
) -> None:
    scene = await AskingFixture.begin(driver, "1")
    (one,) = await scene.worker.take()
    await scene.ask(one)
    await scene.suspend(one, "1-q")
    assert await find(driver.transport) == ()
    if what == "deleted":
        await driver.command("DEL", "input:1-q")
    else:
        await driver.command("HDEL", "input:1-q", "type", "key")
        assert await driver.transport.inputs.withdraw("1-q", "ada") is None
        assert await driver.command("ZCARD", "inputs") == 0
    faults = {fault.kind: fault.names[:2] for fault in await find(driver.transport)}
    assert faults["key"] == ("asker", "a")
    await repair(driver.transport)
    (again,) = await scene.worker.take()
    status = (await scene.ask(again)).status
    assert status is (InputStatus.OPEN if what == "deleted" else InputStatus.WITHDRAWN)


async def test_a_reset_reaches_who_is_only_said_to_wait(driver: ServerDriver) -> None:
    """As a worker of a version without questions leaves it, which has ended the message."""
    scene = await AskingFixture.begin(driver, "1")
    await scene.worker.take()
    await scene.worker.finish_all()
    await driver.command("HSET", "suspended:asker", "a", "1")
    assert await driver.run("control", "reset", "asker", "a", "reset-1", "") == 1
    assert len(await scene.worker.take()) == 1


async def test_who_is_only_said_to_wait_and_runs_is_given_to_nobody_else(driver: ServerDriver) -> None:
    scene = await AskingFixture.begin(driver, "1", "2")
    await scene.worker.take(1)
    other = await driver.worker("asker")
    await driver.command("HSET", "suspended:asker", "a", "1")
    assert await driver.run("control", "reset", "asker", "a", "reset-1", "") == 1
    assert await other.take() == []
