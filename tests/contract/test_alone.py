"""A message that comes alone: what the server leaves out then, and what it still looks at."""

from __future__ import annotations

import pytest

from callboard.broker.envelope import Delivery, Envelope, Posting
from callboard.broker.errors import FencedError
from callboard.broker.mailbox import ConsumedType, Pull
from callboard.broker.redis.client.transport import Declared
from callboard.broker.redis.library import Mark
from tests.helpers.commits import Done
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


# Where everything is as usual: few steps, and the same of it left behind


async def _at_bell(worker: DrivenWorker, room: int = 1) -> list[Delivery]:
    """What comes with a bell that has rung."""
    pull = Pull([ConsumedType("counter")], room, 0, False, room)
    _, turn = await worker.lane.turn_at_bell(["counter"], 5, pull)
    assert turn is not None
    worker.held += turn.deliveries
    return turn.deliveries


def _answered(delivery: Delivery, process: str = "p") -> Done:
    reply = (process, "", delivery.envelope.id, "Answer", "counter/a", b"\x81\xa1k\xa5reply", b"{}")
    return Done(delivery, Mark.COMMIT + Mark.REPLY, reply)


async def test_what_comes_with_a_bell_is_held_and_no_more_when_it_is_committed(driver: ServerDriver) -> None:
    worker = await _worker(driver)
    await driver.publish(Posting(Envelope("m", "Note", "a", "cart/x", 0, b"1"), "topic:visits"))
    (one,) = await _at_bell(worker)
    assert (bodies([one]), one.envelope.sender) == (["1"], "cart/x")
    assert await driver.mapping("busy:counter") == {"a": worker.name}
    assert list((await driver.mapping(f"own:{worker.name}")).values()) == ["a"]
    assert await _fresh(driver) == []
    turn = await worker.turn(_answered(one), count=1, scan=False)
    assert turn.deliveries == []
    await driver.check_empty("counter")
    assert await driver.mapping("stats:counter") == {"done": "1"}
    (reply,) = await driver.entries("reply:p")
    assert (reply["id"].decode(), reply["body"]) == (one.envelope.id, b"{}")


async def test_what_comes_together_with_a_bell_is_all_given(driver: ServerDriver) -> None:
    worker = await _worker(driver)
    await driver.note("topic:visits", "a", "1", "2")
    assert bodies(await _at_bell(worker, room=5)) == ["1", "2"]
    assert await driver.pending("topic:visits", "counter") == 2


async def test_what_a_bell_brought_no_room_for_comes_with_the_next_turn(driver: ServerDriver) -> None:
    worker = await _worker(driver)
    await driver.note("topic:visits", "a", "1", "2")
    assert bodies(await _at_bell(worker)) == ["1"]
    assert await _fresh(driver) == [b"topic:visits"]
    assert bodies((await worker.turn(count=1, scan=False)).deliveries) == ["2"]


async def test_an_agent_that_another_worker_runs_does_not_come_with_a_bell(driver: ServerDriver) -> None:
    first = await _worker(driver)
    await driver.note("topic:visits", "a", "1")
    (one,) = await _at_bell(first)
    second = await driver.worker("counter")
    await driver.note("topic:visits", "a", "2")
    assert await _at_bell(second) == []
    assert await driver.mapping("parked:counter") == {"a": "1"}
    turn = await first.turn(_answered(one), count=1, scan=False, accept=True)
    assert bodies(turn.deliveries) == ["2"], "what waited behind the agent goes on"


async def test_what_is_new_comes_with_a_commit_that_comes_alone(driver: ServerDriver) -> None:
    worker = await _worker(driver)
    await driver.note("topic:visits", "a", "1")
    (one,) = await _at_bell(worker)
    await driver.note("topic:visits", "b", "2", "3")
    turn = await worker.turn(_answered(one), count=1, scan=False)
    assert (bodies(turn.deliveries), turn.more) == (["2"], True)
    assert await driver.mapping("busy:counter") == {"b": worker.name}


async def test_what_is_not_held_is_not_committed_alone(driver: ServerDriver) -> None:
    worker = await _worker(driver)
    await driver.note("topic:visits", "a", "1")
    (one,) = await _at_bell(worker)
    await driver.command("DEL", f"own:{worker.name}")
    with pytest.raises(FencedError):
        await worker.turn(_answered(one), count=1, scan=False)
    assert await driver.entries("reply:p") == []


async def test_a_new_topic_is_made_known_by_a_message_that_comes_alone(driver: ServerDriver) -> None:
    await driver.declare(Declared("counter", "prefix", "vis"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    assert bodies(await worker.take()) == ["1"]


async def test_a_stream_of_replies_always_has_an_end(driver: ServerDriver) -> None:
    """How long it is kept is said now and then, and of a stream that is new."""
    worker = await _worker(driver)
    for number in range(3):
        await driver.note("topic:visits", "a", "1")
        (one,) = await _at_bell(worker)
        await worker.turn(_answered(one), count=1, scan=False)
        assert len(await driver.entries("reply:p")) == (number % 2) + 1
        assert 0 < await driver.command("TTL", "reply:p") <= 60
        if number == 1:
            await driver.command("DEL", "reply:p")
