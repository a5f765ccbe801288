"""Publishing: each message once, in order, to those who subscribe; or later; or refused with a reason."""

from __future__ import annotations

import asyncio
import os
from itertools import chain

import pytest

from callboard.broker import BrokerSettings
from callboard.broker.errors import CommandError, OverloadedError, UndeliverableError
from callboard.broker.redis.client.endpoint import Argument
from callboard.broker.redis.client.publisher import message_values
from callboard.broker.redis.client.transport import Declared
from callboard.broker.redis.library import Mark
from tests.helpers.eventually import eventually
from tests.helpers.server_driver import ServerDriver, bodies, posting, topic

WINDOW = 86_400_000  # ms
FAR = 9_000_000_000_000  # a time of the server's clock, ms


def _values(stream: str, *bodies: str, once: str = "") -> list[Argument]:
    return message_values([posting(stream, "a", body, idempotency_id=once) for body in bodies])


async def test_a_batch_that_is_sent_again_adds_nothing(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    for _ in range(3):
        await driver.run("publish", "p1", 1, f"{WINDOW} 1000 0 0", 1, "", *_values("topic:visits", "1"))
    await driver.run("publish", "p1", 2, f"{WINDOW} 1000 0 0", 1, "", *_values("topic:visits", "2"))
    with pytest.raises(CommandError, match="OVERTAKEN"):
        await driver.run("publish", "p1", 1, f"{WINDOW} 1000 0 0", 1, "", *_values("topic:visits", "1"))
    await driver.run("publish", "p2", 1, f"{WINDOW} 1000 0 0", 1, "", *_values("topic:visits", "3"))
    assert [entry["body"] for entry in await driver.entries("topic:visits")] == [b"1", b"2", b"3"]


async def test_an_idempotency_id_is_added_once(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    again = [
        await driver.publish(posting("topic:visits", "a", str(i), idempotency_id="order-1")) for i in range(3)
    ]
    assert again == [[True], [False], [False]]
    assert await driver.publish(posting("topic:visits", "a", "x", idempotency_id="order-2")) == [True]
    assert [entry["body"] for entry in await driver.entries("topic:visits")] == [b"0", b"x"]


async def test_an_id_may_come_again_when_its_window_is_over(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    number = 0

    async def added_again() -> bool:
        nonlocal number
        number += 1
        values = _values("topic:visits", str(number), once="x")
        return len(await driver.run("publish", "p", number, "100 1000 0 0", 1, "", *values)) == 2

    assert await added_again()
    await eventually(added_again, within=20)
    assert await driver.command("ZCARD", "dedupe") == 1


async def test_processes_with_different_windows_know_each_others_ids(driver: ServerDriver) -> None:
    """As in a rolling deploy that changes `dedupe_window`: an id stays as long as who sent it first has said."""
    await driver.declare(topic("counter", "visits"))
    hour = 3_600_000
    for number, (window, once) in enumerate(
        [(24 * hour, "long"), (hour, "long"), (hour, "short"), (24 * hour, "short")]
    ):
        values = _values("topic:visits", str(number), once=once)
        await driver.run("publish", f"p{number}", 1, f"{window} 1000 0 0", 1, "", *values)
    assert [entry["body"] for entry in await driver.entries("topic:visits")] == [b"0", b"2"]
    assert await driver.command("PTTL", "dedupe") > 24 * hour


async def test_what_is_forgotten_goes_with_what_comes(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    old = [value for i in range(100) for value in (1 + i, f"old-{i}")]
    await driver.command("ZADD", "dedupe", *old)
    for number in range(30):
        await driver.publish(posting("topic:visits", "a", str(number), idempotency_id=f"new-{number}"))
    assert await driver.command("ZCARD", "dedupe") == 30
    assert await driver.publish(posting("topic:visits", "a", "x", idempotency_id="new-0")) == [False]


async def test_an_id_that_could_not_be_used_is_free(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    await driver.command("SET", "topic:broken", "x")
    with pytest.raises(CommandError, match="nothing can be added"):
        await driver.publish(posting("topic:broken", "a", idempotency_id="x"))
    assert await driver.publish(posting("topic:visits", "a", idempotency_id="x")) == [True]


async def test_a_request_to_an_unknown_agent_type_is_refused(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    with pytest.raises(UndeliverableError, match="no agent type is registered for 'nobody'"):
        await driver.publish(posting("inbox:nobody", "a"))
    assert await driver.command("EXISTS", "inbox:nobody") == 0


async def test_a_topic_without_subscribers_keeps_its_newest_and_says_so(driver: ServerDriver) -> None:
    full = b""
    for number in range(30):
        batch = _values("topic:lonely", *map(str, range(100)))
        answer = await driver.run("publish", "p", number + 1, f"{WINDOW} 500 0 0", 100, "", *batch)
        full = full or answer[1]
    assert full == b"lonely"
    assert 500 <= await driver.command("XLEN", "topic:lonely") <= 700


async def test_a_first_subscription_begins_at_the_first_entry_and_a_later_one_at_the_end(
    driver: ServerDriver,
) -> None:
    await driver.note("topic:visits", "a", "1", "2")
    await driver.declare(topic("counter", "visits"))
    await driver.declare(topic("audit", "visits"))
    await driver.declare(topic("replayer", "visits", "0"))
    await driver.note("topic:visits", "a", "3")
    worker = await driver.worker("counter", "audit", "replayer")
    assert bodies(await worker.take(9, "counter")) == ["1", "2", "3"]
    assert bodies(await worker.take(9, "audit")) == ["3"]
    assert bodies(await worker.take(9, "replayer")) == ["1", "2", "3"]


async def test_declaring_again_changes_nothing(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    await driver.note("topic:visits", "a", "1")
    worker = await driver.worker("counter")
    held = await worker.take()
    await driver.declare(topic("counter", "visits"))
    assert await worker.take() == []
    await worker.finish(*held)
    await driver.check_empty("counter")


async def test_a_prefix_takes_topics_that_come_later_from_their_first_message(driver: ServerDriver) -> None:
    await driver.declare(Declared("audit", "prefix", "order-"), Declared("counter", "prefix", ""))
    await driver.note("topic:order-eu", "a", "1")
    await driver.note("topic:visits", "a", "2")
    worker = await driver.worker("audit", "counter")
    assert bodies(await worker.take(9, "audit")) == ["1"]
    assert bodies(await worker.take(9, "counter")) == ["1", "2"]


async def test_a_batch_for_many_topics_reaches_those_that_are_new_as_well(driver: ServerDriver) -> None:
    await driver.declare(
        topic("audit", "orders"), topic("audit", "visits"), Declared("audit", "prefix", "eu-")
    )
    names = ("orders", "eu-orders", "visits", "elsewhere", "orders", "eu-orders")
    batch = (posting(f"topic:{name}", "a", str(number)) for number, name in enumerate(names))
    assert await driver.publish(*batch) == [True] * len(names)
    worker = await driver.worker("audit")
    assert bodies(await worker.take(9)) == ["0", "1", "2", "4", "5"]
    assert await driver.command("HGET", "topics", "elsewhere") == b""


async def test_overlapping_subscriptions_deliver_once(driver: ServerDriver) -> None:
    await driver.declare(topic("audit", "order-eu"), Declared("audit", "prefix", "order-"))
    await driver.note("topic:order-eu", "a", "1")
    worker = await driver.worker("audit")
    assert bodies(await worker.take()) == ["1"]
    assert await worker.take() == []


async def test_after_unsubscribing_nothing_more_comes(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), topic("counter", "orders"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    held = await worker.take()
    assert await driver.run("unsubscribe", "counter", "topic", "visits") == 1
    assert await driver.run("unsubscribe", "counter", "topic", "visits") == 0
    await driver.note("topic:visits", "b", "2")
    await driver.note("topic:orders", "b", "3")
    assert bodies(await worker.take()) == ["3"]
    await worker.finish(*held)
    await worker.finish_all()
    await driver.check_empty("counter")


async def test_a_delayed_message_comes_when_it_is_due(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.publish(posting("topic:visits", "a", "late", due=150), posting("topic:visits", "a", "soon"))
    assert bodies(await worker.take()) == ["soon"]
    assert await worker.take() == []

    async def taken() -> list[str]:
        return bodies(await worker.take())

    assert await eventually(taken, within=20) == ["late"]
    assert await driver.command("EXISTS", "timers") == 0


async def test_delayed_messages_with_one_id_come_both(driver: ServerDriver) -> None:
    """The id is used again after its window, in another topic."""
    await driver.declare(topic("counter", "visits"), topic("counter", "orders"))
    worker = await driver.worker("counter")
    await driver.publish(posting("topic:visits", "a", "first", due=50, id="m1"))
    await driver.publish(posting("topic:orders", "a", "second", due=50, id="m1"))
    assert await driver.command("ZCARD", "timers") == 2
    taken: list[str] = []

    async def all_taken() -> bool:
        taken.extend(bodies(await worker.take()))
        return len(taken) == 2

    await eventually(all_taken, within=20)
    assert taken == ["first", "second"]


async def test_what_is_due_at_the_same_time_comes_in_the_order_of_publishing(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    numbers = [str(number) for number in range(30)]
    await driver.publish(
        *(posting("topic:visits", "a", one, due=FAR, id=f"m{99 - int(one)}") for one in numbers)
    )
    for member in await driver.command("ZRANGE", "timers", 0, -1):
        await driver.command("ZADD", "timers", 1, member)
    assert bodies(await worker.take(50)) == numbers


async def test_a_time_in_the_past_is_now(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    # A time in 1972 is as many milliseconds as two years: it must not be taken for a delay.
    for time in (-1_500_000_000_000, -63_072_000_000, -1):
        await driver.publish(posting("topic:visits", "a", str(time), due=time))
    worker = await driver.worker("counter")
    assert bodies(await worker.take()) == ["-1500000000000", "-63072000000", "-1"]


async def test_a_beat_fires_timers_too(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.publish(posting("topic:visits", "a", "late", due=20))

    async def fired() -> bool:
        await worker.beat()
        return int(await driver.command("XLEN", "topic:visits")) == 1

    await eventually(fired, within=20)


async def test_an_idle_worker_hears_the_bell(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    assert not await worker.lane.wait_for_bell(["counter"], 0.05)
    await driver.note("topic:visits", "a", *"123456789")
    assert 1 <= await driver.command("LLEN", "bell:counter") <= 4
    assert await worker.lane.wait_for_bell(["counter"], 5)


async def test_entries_added_by_hand_are_taken_in_their_place(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    await driver.add_by_hand("topic:visits", "type", "Note", "key", "a", "body", '{"title":"x"}')
    await driver.add_by_hand("topic:visits", "body", "3", "type", "Note")
    await driver.note("topic:visits", "a", "4")
    taken = await worker.take()
    assert bodies(taken) == ["1", '{"title":"x"}', "3", "4"]
    assert [one.raw_key for one in taken] == [b"a", b"a", b"default", b"a"]
    assert taken[1].envelope.id == f"topic:visits:{taken[1].entry.decode()}"


async def test_a_hand_made_id_in_the_future_stops_nobody(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), topic("counter", "orders"))
    await driver.add_by_hand("topic:visits", "type", "Note", "key", "a", "body", "1", id="9999999999999-5")
    await driver.note("topic:visits", "a", "2", "3")
    await driver.note("topic:orders", "a", "4")
    worker = await driver.worker("counter")
    assert bodies(await worker.take()) == ["1", "2", "3", "4"]


async def test_idle_counts_what_is_to_be_done(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    assert (await driver.transport.idle())[:3] == (0, 0, 0)
    await driver.note("topic:visits", "a", "1", "2")
    assert (await driver.transport.idle())[:3] == (1, 0, 0)
    worker = await driver.worker("counter")
    await worker.take()
    assert (await driver.transport.idle())[:3] == (0, 1, 0)
    await worker.finish_all()
    idle = await driver.transport.idle()
    assert idle[:3] == (0, 0, 0)
    await driver.note("topic:nobody", "a", "1")
    assert (await driver.transport.idle())[:3] == (0, 0, 0), "nobody is going to take it"
    assert (await driver.transport.idle())[3] != idle[3]


async def test_a_message_held_back_by_a_retry_is_not_idle(driver: ServerDriver) -> None:
    from tests.helpers.commits import Done

    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    (one,) = await worker.take()
    await worker.turn(Done(one, Mark.RETRY, (60_000, 1, "", "no")))
    assert any((await driver.transport.idle())[:3])


async def test_an_entry_leaves_out_what_is_empty(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    sent = posting("topic:visits", "a", "2")
    named = sent._replace(envelope=sent.envelope._replace(sender="clerk/b", cause="m0"))
    await driver.publish(posting("topic:visits", "a", "1"), named)
    one, other = await driver.entries("topic:visits")
    assert list(one) == ["id", "type", "key", "body"]
    assert list(other) == ["id", "type", "key", "from", "head", "body"]
    taken = await (await driver.worker("counter")).take()
    assert [each.envelope.at for each in taken] == [int(each.entry.split(b"-")[0]) for each in taken]
    assert taken[1].envelope == named.envelope._replace(at=taken[1].envelope.at)


async def test_a_message_has_its_time_where_its_entry_has_another(driver: ServerDriver) -> None:
    """Ids rise although the server's clock went back."""
    await driver.declare(topic("counter", "visits"))
    await driver.command("SET", "clock", f"{FAR}-0")
    await driver.note("topic:visits", "a", "1")
    (taken,) = await (await driver.worker("counter")).take()
    assert taken.entry.startswith(b"%d-" % FAR)
    assert taken.envelope.at < FAR


async def test_an_entry_with_all_fields_is_read_alike(driver: ServerDriver) -> None:
    """As versions before wrote it, and others do while a deployment rolls."""
    await driver.declare(topic("counter", "visits"))
    values = {"id": "m1", "type": "Note", "key": "a", "from": "", "at": "5", "head": "", "body": "1"}
    await driver.add_by_hand("topic:visits", *chain.from_iterable(values.items()))
    (taken,) = await (await driver.worker("counter")).take()
    assert taken.envelope == posting("topic:visits", "a", "1", id="m1").envelope._replace(at=5)


async def test_messages_of_every_form_in_one_batch_keep_their_order(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), topic("counter", "orders"))
    sent = posting("topic:visits", "a", "2")
    batch = [
        posting("topic:visits", "a", "1"),
        sent._replace(envelope=sent.envelope._replace(cause="m0")),
        posting("topic:visits", "a", "3", idempotency_id="once"),
        posting("topic:orders", "a", "4"),
        posting("topic:visits", "a", "5", idempotency_id="once"),
        posting("topic:visits", "a", "6"),
    ]
    assert await driver.publish(*batch) == [True, True, True, True, False, True]
    assert bodies(await (await driver.worker("counter")).take()) == ["1", "2", "3", "4", "6"]


async def test_of_messages_to_several_streams_in_turn_each_ends_as_it_has_to(driver: ServerDriver) -> None:
    """They are one run for the server, in which each names its stream."""
    streams = ("topic:visits", "topic:orders", "inbox:counter")
    await driver.declare(topic("counter", "visits"), topic("counter", "orders"))
    await driver.command("SET", "topic:broken", "x")
    batch = [posting(streams[number % 3], "a", str(number)) for number in range(9)]
    batch = [one._replace(envelope=one.envelope._replace(cause="m0")) for one in batch[:4]] + batch[4:]
    batch[2:2] = [
        posting("inbox:nobody", "a"),
        posting("topic:broken", "a"),
        posting("topic:new", "a", "new"),
    ]
    batch += [posting(stream, "a", stream, idempotency_id=f"{i // 2}") for i, stream in enumerate(streams)]
    futures = [driver.transport.publisher.post(one) for one in batch]
    ends = await asyncio.gather(*futures, return_exceptions=True)
    assert [type(end) for end in ends if end is not True] == [UndeliverableError, CommandError, bool]
    assert [ends.index(end) for end in ends if end is not True] == [2, 3, 13]
    added = ["0", "1", *map(str, range(2, 9)), streams[0], streams[2]]
    assert bodies(await (await driver.worker("counter")).take(20)) == added
    assert [entry["body"] for entry in await driver.entries("topic:new")] == [b"new"]
    for first, stream in enumerate(streams[:2]):
        found = [entry["body"].decode() for entry in await driver.entries(stream)]
        assert found[:3] == [str(number) for number in range(first, 9, 3)]


async def test_of_messages_to_several_streams_in_turn_those_are_refused_that_find_no_room(
    server_url: str,
) -> None:
    settings = BrokerSettings(namespace=f"contract-{os.urandom(4).hex()}", max_backlog=2, when_full="reject")
    driver = ServerDriver(server_url, settings)
    await driver.declare(topic("counter", "visits"), topic("counter", "orders"))
    batch = [posting(f"topic:{name}", "a", name) for name in ("visits", "orders") * 3 + ("visits",)]
    futures = [driver.transport.publisher.post(one) for one in batch]
    ends = await asyncio.gather(*futures, return_exceptions=True)
    assert [type(end) for end in ends] == [bool] * 4 + [OverloadedError] * 3
    assert all(isinstance(end, OverloadedError) and end.stream for end in ends[4:])
    assert len(await driver.entries("topic:visits")) == len(await driver.entries("topic:orders")) == 2
    await driver.close()
