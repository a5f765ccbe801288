"""A message that comes alone: what the server leaves out then, and what it still looks at."""

from __future__ import annotations

import pytest

from callboard.broker.redis.client.commits import Done
from callboard.broker.redis.marks import Mark
from tests.helpers.server_driver import DrivenWorker, ServerDriver, bodies, posting, topic

FIELDS = ("id", "x", "type", "Note", "key", "c", "body", "by hand")


async def _worker(driver: ServerDriver, *topics: str) -> DrivenWorker:
    await driver.declare(*(topic("counter", name) for name in topics or ("visits",)))
    worker = await driver.worker("counter")
    assert await worker.take() == []
    return worker


async def _fresh(driver: ServerDriver) -> list[bytes]:
    found: list[bytes] = await driver.command("ZRANGE", "fresh:counter", 0, -1)
    return found


async def test_what_ends_with_the_last_id_has_been_read_to_its_end(driver: ServerDriver) -> None:
    worker = await _worker(driver)
    await driver.note("topic:visits", "a", "1", "2")
    first = await worker.turn(count=1, scan=False)
    assert (bodies(first.deliveries), first.more) == (["1"], True)
    assert await _fresh(driver) == [b"topic:visits"], "there is more of it"
    second = await worker.turn(count=1, scan=False)
    assert (bodies(second.deliveries), second.more) == (["2"], False)
    assert await _fresh(driver) == []


async def test_a_stream_with_an_older_end_is_read_on(driver: ServerDriver) -> None:
    """Whether it holds more can't be told from its id."""
    worker = await _worker(driver, "visits", "orders")
    await driver.note("topic:visits", "a", "1")
    await driver.note("topic:orders", "b", "2")
    turn = await worker.turn(count=1, scan=False)
    assert (bodies(turn.deliveries), turn.more) == (["1"], True)
    assert bodies(await worker.take()) == ["2"]


async def test_what_a_person_adds_behind_the_last_id_is_found_by_a_beat(driver: ServerDriver) -> None:
    worker = await _worker(driver)
    await driver.note("topic:visits", "a", "1")
    await driver.command("XADD", "topic:visits", "*", *FIELDS)
    turn = await worker.turn(count=1, scan=False)
    assert (bodies(turn.deliveries), await _fresh(driver)) == (["1"], [])
    await worker.beat()
    assert bodies((await worker.turn(count=1, scan=False)).deliveries) == ["by hand"]
    await driver.note("topic:visits", "d", "2")
    assert bodies((await worker.turn(count=5, scan=False)).deliveries) == ["2"], "its id is above that"


async def test_where_the_clock_is_of_another_kind_a_stream_is_read_on(driver: ServerDriver) -> None:
    worker = await _worker(driver)
    await driver.note("topic:visits", "a", "1")
    await driver.command("DEL", "clock")
    await driver.command("HSET", "clock", "a", "b")
    turn = await worker.turn(count=1, scan=False)
    assert (bodies(turn.deliveries), turn.more) == (["1"], True)


async def test_what_goes_back_with_a_commit_is_not_overtaken_in_the_same_turn(driver: ServerDriver) -> None:
    """When the turn began nothing was parked."""
    worker = await _worker(driver)
    await driver.note("topic:visits", "a", "1", "2")
    _, second = await worker.take()
    await driver.note("topic:visits", "a", "3")
    turn = await worker.turn(Done(second, Mark.RELEASE + Mark.MORE, ()), count=5, scan=False)
    assert turn.deliveries == []
    assert await driver.mapping("parked:counter") == {"a": "2"}


async def test_a_turn_tells_of_a_timer_that_its_own_commit_has_set(driver: ServerDriver) -> None:
    worker = await _worker(driver)
    await driver.note("topic:visits", "a", "1")
    (one,) = await worker.take()
    later = (1, "topic:visits", 60_000, "m9", "Note", "a", "", "", "{}")
    turn = await worker.turn(Done(one, Mark.COMMIT + Mark.OUTGOING, later), count=1, scan=False)
    assert turn.next_due_ms is not None
    assert turn.next_due_ms - turn.server_ms > 59_000


@pytest.mark.parametrize("due", [20, 60_000])
async def test_a_timer_of_later_is_in_nobodys_way_and_one_of_now_is_fired(
    driver: ServerDriver, due: int
) -> None:
    worker = await _worker(driver, "visits", "orders")
    await driver.publish(posting("topic:visits", "b", "later", due=due))
    (name, _) = await driver.command("ZRANGE", "timers", 0, 0, "WITHSCORES")
    if due < 100:
        await driver.command("ZADD", "timers", 1, name)
    await driver.note("topic:orders", "a", "now")
    turn = await worker.turn(count=5, scan=False)
    assert sorted(bodies(turn.deliveries)) == (["later", "now"] if due < 100 else ["now"])
    assert (turn.next_due_ms is None) == (due < 100)


async def test_who_works_for_many_types_asks_for_a_part_of_the_keys_only(driver: ServerDriver) -> None:
    names = [f"t{number}" for number in range(120)]
    await driver.declare(*(topic(name, "visits") for name in names))
    worker = await driver.worker(*names)
    await driver.note("topic:visits", "a", "1")
    turn = await worker.turn(count=1, scan=False)
    assert len(turn.deliveries) == len(names)
    await worker.finish_all()
    await driver.check_empty(*names[:3])
