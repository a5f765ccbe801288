"""What is paused waits, and with it all that came later for the same agent; everything else goes on."""

from __future__ import annotations

import pytest

from callboard.broker.redis.library import Mark
from tests.helpers.commits import Done
from tests.helpers.server_driver import DrivenWorker, ServerDriver, bodies, posting, topic

PAUSES = {
    "topic": ("topic", "visits"),
    "key": ("key", "counter/a"),
    "type": ("type", "counter"),
}


async def _pause(driver: ServerDriver, kind: str, name: str) -> None:
    assert await driver.run("control", "pause", kind, name, "me") == 1


async def _resume(driver: ServerDriver, kind: str, name: str) -> None:
    assert await driver.run("control", "resume", kind, name, "me") == 1


async def _declare(driver: ServerDriver) -> DrivenWorker:
    await driver.declare(topic("counter", "visits"), topic("counter", "orders"))
    return await driver.worker("counter")


MOST_EMPTY = 50  # turns in a row that may bring nothing, where there is much to look at


async def _all_of(worker: DrivenWorker, count: int = 10) -> list[str]:
    """Takes and commits until nothing comes."""
    seen: list[str] = []
    empty = 0
    while empty < MOST_EMPTY:
        turn = await worker.turn(count=count)
        if not (turn.deliveries or turn.more):
            return seen
        empty = 0 if turn.deliveries else empty + 1
        seen += bodies(turn.deliveries)
        await worker.finish_all()
    raise AssertionError(f"{empty} turns in a row brought nothing and said that there is more")


async def test_what_came_later_does_not_overtake_a_paused_topic(driver: ServerDriver) -> None:
    worker = await _declare(driver)
    await _pause(driver, "topic", "visits")
    await driver.note("topic:visits", "a", "1")
    await driver.note("topic:orders", "a", "2")
    await driver.note("inbox:counter", "a", "3")
    await driver.note("topic:orders", "b", "other")
    assert await _all_of(worker) == ["other"]
    await _resume(driver, "topic", "visits")
    assert await _all_of(worker) == ["1", "2", "3"]
    await driver.check_empty("counter")


async def test_what_came_before_a_paused_topic_is_handled(driver: ServerDriver) -> None:
    worker = await _declare(driver)
    await driver.note("topic:orders", "a", "1")
    await _pause(driver, "topic", "visits")
    await driver.note("topic:visits", "a", "2")
    await driver.note("topic:orders", "a", "3")
    assert await _all_of(worker) == ["1"]
    await _resume(driver, "topic", "visits")
    assert await _all_of(worker) == ["2", "3"]
    await driver.check_empty("counter")


@pytest.mark.parametrize("paused", PAUSES.values(), ids=PAUSES)
async def test_while_something_of_it_runs(driver: ServerDriver, paused: tuple[str, str]) -> None:
    """What runs goes on to its end; what waits behind it and is paused stays there."""
    worker = await _declare(driver)
    await driver.note("topic:visits", "a", "1")
    await worker.take()
    await _pause(driver, *paused)
    await driver.note("topic:visits", "a", "2")
    await driver.note("topic:orders", "a", "3")
    other = await driver.worker("counter")
    assert await other.take() == []
    assert await worker.finish(*worker.held, accept=True) == []
    assert await _all_of(other) == []
    await _resume(driver, *paused)
    assert await _all_of(other) == ["2", "3"]
    await driver.check_empty("counter")


@pytest.mark.parametrize("paused", PAUSES.values(), ids=PAUSES)
@pytest.mark.parametrize("mark", [Mark.RELEASE, Mark.RETRY], ids=["released", "tried again"])
async def test_what_goes_back_while_it_is_paused_keeps_its_place(
    driver: ServerDriver, paused: tuple[str, str], mark: str
) -> None:
    worker = await _declare(driver)
    await driver.note("topic:visits", "a", "1")
    await driver.note("topic:orders", "a", "2")
    first, second = await worker.take()
    await _pause(driver, *paused)
    await driver.note("inbox:counter", "a", "3")
    values = (1, 1, "", "no") if mark is Mark.RETRY else ()
    await worker.turn(Done(first, mark + Mark.MORE, values), Done(second, Mark.RELEASE, ()))
    if mark is Mark.RETRY:
        await driver.command("ZADD", "timers", 1, "k|counter|a")
    assert await _all_of(worker) == []
    await _resume(driver, *paused)
    assert await _all_of(worker) == ["1", "2", "3"]
    await driver.check_empty("counter")


async def test_a_delayed_message_of_a_paused_topic_waits_too(driver: ServerDriver) -> None:
    worker = await _declare(driver)
    await driver.publish(posting("topic:visits", "a", "later", id="late", due=3_600_000))
    await _pause(driver, "topic", "visits")
    (timer,) = await driver.command("ZRANGE", "timers", 0, -1)
    await driver.command("ZADD", "timers", 1, timer)
    await worker.turn()
    await driver.note("topic:orders", "a", "after")
    assert await _all_of(worker) == []
    await _resume(driver, "topic", "visits")
    assert await _all_of(worker) == ["later", "after"]


@pytest.mark.parametrize("first", ["topic", "key", "type"])
async def test_of_two_pauses_each_holds_by_itself(driver: ServerDriver, first: str) -> None:
    worker = await _declare(driver)
    for paused in PAUSES.values():
        await _pause(driver, *paused)
    await driver.note("topic:visits", "a", "1")
    await driver.note("topic:orders", "a", "2")
    for kind in (first, *(kind for kind in PAUSES if kind != first)):
        assert await _all_of(worker) == []
        await _resume(driver, *PAUSES[kind])
    assert await _all_of(worker) == ["1", "2"]
    await driver.check_empty("counter")


async def test_two_paused_topics_and_one_that_goes_on(driver: ServerDriver) -> None:
    worker = await _declare(driver)
    await _pause(driver, "topic", "visits")
    await _pause(driver, "topic", "orders")
    for number in range(30):
        await driver.note(("topic:visits", "topic:orders", "inbox:counter")[number % 3], "a", str(number))
    assert await _all_of(worker) == []
    await _resume(driver, "topic", "orders")
    assert await _all_of(worker) == []
    await _resume(driver, "topic", "visits")
    assert await _all_of(worker, 4) == [str(number) for number in range(30)]
    await driver.check_empty("counter")


async def test_a_paused_backlog_is_left_alone_until_something_could_overtake_it(driver: ServerDriver) -> None:
    worker = await _declare(driver)
    await _pause(driver, "topic", "visits")
    await driver.publish(*(posting("topic:visits", f"k{i}", "old") for i in range(100)))
    turn = await worker.turn(count=10)
    assert (turn.deliveries, turn.more) == ([], False)
    assert await driver.pending("topic:visits", "counter") == 0
    await driver.note("inbox:counter", "k99", "new")
    assert await _all_of(worker) == []
    assert await driver.pending("topic:visits", "counter") == 100
    await _resume(driver, "topic", "visits")
    assert await _all_of(worker) == [*["old"] * 100, "new"]
    await driver.check_empty("counter")


async def test_a_long_paused_backlog_delays_others_by_few_turns_and_floods_none(driver: ServerDriver) -> None:
    """However little the worker asks for: paused entries take none of its places."""
    worker = await _declare(driver)
    await _pause(driver, "topic", "visits")
    for _ in range(4):
        await driver.publish(*(posting("topic:visits", f"k{i % 7}") for i in range(500)))
    await driver.note("topic:orders", "other", "new")
    turns, most, before = 0, 0, 0
    while not worker.held:
        turn = await worker.turn(count=1, scan=False)
        assert turn.more or turn.deliveries, "the worker would not look again"
        pending = await driver.pending("topic:visits", "counter")
        turns, most, before = turns + 1, max(most, pending - before), pending
    assert bodies(worker.held) == ["new"]
    assert turns <= 10
    assert most <= 500


async def test_large_bodies_of_a_paused_topic_are_read_a_few_at_a_time(driver: ServerDriver) -> None:
    worker = await _declare(driver)
    await _pause(driver, "topic", "visits")
    await driver.publish(*(posting("topic:visits", f"k{i}", b"x" * 200_000) for i in range(48)))
    await driver.note("topic:orders", "other", "new")
    await worker.turn(count=1)
    assert await driver.pending("topic:visits", "counter") == 16
    assert await _all_of(worker, 1) == ["new"]


async def test_an_entry_that_is_gone_does_not_let_the_next_one_through(driver: ServerDriver) -> None:
    worker = await _declare(driver)
    await driver.note("topic:orders", "a", "1")
    held = await worker.take()
    await driver.note("topic:orders", "a", "gone")
    await driver.note("topic:visits", "a", "2")
    other = await driver.worker("counter")
    await other.take()
    await worker.finish(*held, accept=False)
    await driver.command("XTRIM", "topic:orders", "MAXLEN", 0)
    await _pause(driver, "topic", "visits")
    assert await _all_of(other) == []
    await _resume(driver, "topic", "visits")
    assert await _all_of(other) == ["2"]
    await driver.check_empty("counter")


async def test_what_is_handed_over_stops_before_what_is_paused(driver: ServerDriver) -> None:
    """Also where an entry that was deleted by hand stood in between."""
    worker = await _declare(driver)
    await driver.note("topic:orders", "a", "1")
    await worker.take()
    await driver.note("topic:orders", "a", "gone")
    await driver.note("topic:visits", "a", "2")
    other = await driver.worker("counter")
    await other.take()
    await driver.command("XTRIM", "topic:orders", "MAXLEN", 0)
    await _pause(driver, "topic", "visits")
    assert await worker.finish(*worker.held, accept=True) == []
    await _resume(driver, "topic", "visits")
    assert await _all_of(worker) == ["2"]
    await driver.check_empty("counter")


async def test_a_reset_does_not_wait_for_a_paused_topic(driver: ServerDriver) -> None:
    worker = await _declare(driver)
    await _pause(driver, "topic", "visits")
    await driver.note("topic:visits", "a", "1")
    await driver.note("topic:orders", "a", "2")
    assert await _all_of(worker) == []
    assert await driver.run("control", "reset", "counter", "a", "r1", "me") == 1
    (reset,) = await worker.take()
    assert reset.envelope.type == "callboard.reset"
    await worker.finish(reset, accept=True)
    assert worker.held == []
    await _resume(driver, "topic", "visits")
    assert await _all_of(worker) == ["1", "2"]
    await driver.check_empty("counter")


async def test_who_left_a_paused_topic_goes_on_when_it_is_resumed(driver: ServerDriver) -> None:
    worker = await _declare(driver)
    await _pause(driver, "topic", "visits")
    await driver.note("topic:visits", "a", "1")
    await driver.note("topic:orders", "a", "2")
    assert await _all_of(worker) == []
    await driver.run("unsubscribe", "counter", "topic", "visits")
    await driver.note("topic:visits", "a", "not")
    assert await _all_of(worker) == []
    await _resume(driver, "topic", "visits")
    assert await _all_of(worker) == ["1", "2"]
    await worker.beat()
    await driver.check_empty("counter")
    assert await driver.mapping("leaving") == {}


async def test_two_types_of_a_paused_topic_both_keep_their_order(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), topic("audit", "visits"), topic("audit", "orders"))
    counter, audit = await driver.worker("counter"), await driver.worker("audit")
    await _pause(driver, "topic", "visits")
    await driver.note("topic:visits", "a", "1")
    await driver.note("topic:orders", "a", "2")
    await driver.note("inbox:counter", "a", "3")
    assert await _all_of(audit) == []
    assert await _all_of(counter) == []
    await _resume(driver, "topic", "visits")
    assert await _all_of(audit) == ["1", "2"]
    assert await _all_of(counter) == ["1", "3"]
    await driver.check_empty("counter", "audit")


@pytest.mark.real_server("it takes twenty times as long there")
async def test_many_agents_that_were_put_aside_all_go_on_a_part_of_them_at_a_time(
    driver: ServerDriver,
) -> None:
    """Some are still paused for another reason; those are put aside again."""
    worker = await _declare(driver)
    await _pause(driver, "topic", "visits")
    await _pause(driver, "key", "counter/k7")
    for start in range(0, 2000, 500):
        await driver.publish(*(posting("topic:visits", f"k{start + i}", "x") for i in range(500)))
    await driver.note("topic:orders", "other", "new")
    assert await _all_of(worker) == ["new"]
    assert await driver.command("HLEN", "shelved:counter") == 2000
    await _resume(driver, "topic", "visits")
    left = await driver.command("HKEYS", "shelved:counter")
    assert len(left) >= 500, "they would all be moved in one call"
    suspicions = [value for key in left[:9] for value in ("key", "counter", key, "")]
    assert await driver.run("repair", "look", *suspicions) == []
    assert await _all_of(worker, 500) == ["x"] * 1999
    assert await driver.mapping("shelved:counter") == {"k7": "ready:"}
    assert await driver.mapping("resumed") == {}
    await _resume(driver, "key", "counter/k7")
    assert await _all_of(worker) == ["x"]
    await driver.check_empty("counter")
