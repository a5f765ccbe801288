"""What is too much for one call of a server is done in portions: nothing is lost on the way, and all of it ends."""

from __future__ import annotations

import pytest

from callboard.broker.outcome import RunEvent, RunWrite
from callboard.broker.redis.client.transport import Declared
from callboard.broker.redis.library import Mark
from tests.helpers.commits import Done
from tests.helpers.server_driver import DrivenWorker, ServerDriver, bodies, posting, topic

pytestmark = pytest.mark.real_server("it is about much, and takes long there")

STEP = 500  # as in lua/shared/chores.lua
MOST_PARKED = 128  # as in lua/turn/take.lua
TOPICS = 12


async def _beats(worker: DrivenWorker) -> int:
    """Beats until there is nothing more to do soon; how many."""
    for count in range(1, 100):
        if not (await worker.beat())[3]:
            return count
    raise AssertionError("it has no end")


async def _consumed(driver: ServerDriver, name: str) -> int:
    """Entries that are pending with a consumer, in all topics and groups."""
    count = 0
    for i in range(TOPICS):
        for group in ("counter", "audit"):
            pending = await driver.command("XPENDING", f"topic:t-{i}", group, "-", "+", 1000, name)
            count += len(pending)
    return count


async def test_what_a_worker_leaves_in_many_topics_moves_in_portions(driver: ServerDriver) -> None:
    """Each of its topics and types has little; together they are much."""
    await driver.declare(Declared("counter", "prefix", "t-"), Declared("audit", "prefix", "t-"))
    holder, parker = await driver.worker("counter", "audit"), await driver.worker("counter", "audit")
    await driver.publish(*(posting(f"topic:t-{i}", f"k{i}") for i in range(TOPICS)))
    while len(holder.held) < 2 * TOPICS:
        await holder.take(100)
    for i in range(TOPICS):
        await driver.publish(*(posting(f"topic:t-{i}", f"k{i}") for _ in range(60)))
    while (turn := await parker.turn(count=100)).more or turn.deliveries:
        pass
    name, much = parker.name, 2 * 60 * TOPICS
    assert await _consumed(driver, name) == much
    await parker.lane.leave()
    left = await _consumed(driver, name)
    assert much - STEP - 60 <= left < much
    assert await _beats(holder) >= 2
    assert await _consumed(driver, name) == 0
    assert await _consumed(driver, "nobody") == much
    assert await driver.command("EXISTS", "chores") == 0


async def test_a_worker_ends_whose_type_left_more_topics_than_a_portion(driver: ServerDriver) -> None:
    """A small hash is one page: a portion that is over before its end, with nothing moved, would begin anew for ever."""
    left = STEP + 5
    await driver.declare(*(topic("counter", f"t-{i}") for i in range(left)))
    stays, leaver = await driver.worker("counter"), await driver.worker("counter")
    await driver.publish(*(posting(f"topic:t-{i}", f"k{i}") for i in range(left)))
    while len(stays.held) < left:
        await stays.take(100)
    for i in range(left):
        await driver.run("unsubscribe", "counter", "topic", f"t-{i}")
    await leaver.lane.leave()
    assert await _beats(stays) >= 1
    assert await driver.command("EXISTS", "chores") == 0


async def test_a_prefix_that_ends_between_two_portions_brings_no_more_topics(driver: ServerDriver) -> None:
    """As when the process that subscribed died after the first portion, and another one ends the subscription."""
    await driver.declare(*(topic("counter", f"t-{i}") for i in range(2 * STEP)))
    worker = await driver.worker("counter")
    answer = await driver.run("declare", 1, 1, "late", "{}", 1, "late", "prefix", "t-", "", "")
    assert answer[0] == b"MORE"
    assert await driver.transport.unsubscribe(Declared("late", "prefix", "t-"))
    await _beats(worker)
    assert await driver.command("SMEMBERS", "streams:late") == [b"inbox:late"]
    assert await driver.command("EXISTS", "chores") == 0


async def test_what_is_parked_behind_many_agents_is_given_in_portions(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    for said in "12":
        await driver.publish(*(posting("topic:visits", f"k{i}", f"{i} {said}") for i in range(200)))
    await first.take(200)
    await second.take(200)  # is given nothing: what it read is parked
    await first.turn(*(Done(one, Mark.RELEASE, ()) for one in first.held))
    seen: dict[str, list[str]] = {}
    is_more = True
    while is_more:
        turn = await second.turn(count=500)
        assert len(turn.deliveries) <= MOST_PARKED
        for body in bodies(turn.deliveries):
            seen.setdefault(body.split()[0], []).append(body)
        is_more = turn.more
    assert len(seen) == 200
    assert all(said == [f"{key} 1", f"{key} 2"] for key, said in seen.items())


async def test_agents_that_end_hand_over_what_waits_behind_them_in_portions(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    for said in "123":
        await driver.publish(*(posting("topic:visits", f"k{i}", f"{i} {said}") for i in range(100)))
    held = await first.take(100)
    await second.take(200)
    handed = await first.finish(*held, accept=True)
    assert MOST_PARKED <= len(handed) <= MOST_PARKED + 16
    assert len(await second.take_all(200)) == 200 - len(handed)


ODD = "r 1\x1f2\x1f \n"  # whatever a text can have may be in the id of a run, and in a tag


def _write(*bodies: str, tag: str = "", settles: str = "", since: int = 0, run: str = "r1") -> RunWrite:
    events = [RunEvent("Said", 1, body.encode()) for body in bodies]
    return RunWrite(run, events, 10_000, 60_000, tag, settles, since)


async def test_many_drafts_are_settled_in_portions(driver: ServerDriver) -> None:
    """The newest go with what came of them. Older than the newest 2,000 stays, and so does what is written meanwhile."""
    await driver.declare(topic("counter", "visits"))
    worker, write = await driver.worker("counter"), driver.transport.runs.write
    await write(_write("old", tag="1 0"))
    await write(_write(*(str(i) for i in range(2000)), tag="1 1"))
    await write(_write("total", settles="1 "))
    assert await driver.command("XLEN", "run:r1") == 2000 - STEP + 2
    await write(_write("later", tag="1 2"))
    assert await _beats(worker) >= 2
    kept = [entry["body"].decode() for entry in await driver.entries("run:r1")]
    assert kept == ["old", "total", "later"]
    assert await driver.command("EXISTS", "chores") == 0


async def test_drafts_that_are_settled_twice_are_settled_as_far_as_the_first_time(
    driver: ServerDriver,
) -> None:
    """The second one began at the newest, and forgot how far the first one was."""
    await driver.declare(topic("counter", "visits"))
    worker, write = await driver.worker("counter"), driver.transport.runs.write
    for _ in range(2):
        await write(_write(*(str(i) for i in range(2000)), tag="1 1"))
        await write(_write("total", settles="1 "))
    await _beats(worker)
    assert [entry["body"] for entry in await driver.entries("run:r1")] == [b"total", b"total"]
    assert await driver.command("EXISTS", "chores") == 0


async def test_drafts_are_settled_whatever_is_in_the_names(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker, write = await driver.worker("counter"), driver.transport.runs.write
    await write(_write(*(str(i) for i in range(STEP + 100)), tag=f"{ODD}1", run=ODD))
    await write(_write("total", settles=ODD, run=ODD))
    await _beats(worker)
    assert [entry["body"] for entry in await driver.entries(f"run:{ODD}")] == [b"total"]
    assert await driver.command("EXISTS", "chores") == 0
