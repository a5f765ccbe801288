"""Order per agent key, over every stream that a type reads."""

from __future__ import annotations

import random

import pytest

from callboard.broker.envelope import Delivery
from tests.helpers.server_driver import ServerDriver, bodies, posting, topic


async def test_one_topic_in_order(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    await driver.note("topic:visits", "a", "1", "2", "3")
    worker = await driver.worker("counter")
    assert bodies(await worker.take()) == ["1", "2", "3"]


async def test_topics_and_inbox_are_merged_in_the_order_of_publishing(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), topic("counter", "orders"))
    streams = ["topic:visits", "inbox:counter", "topic:orders"]
    await driver.publish(*(posting(streams[i % 3], "a", str(i)) for i in range(30)))
    worker = await driver.worker("counter")
    seen = []
    for _ in range(30):
        seen += bodies(await worker.take(1))
    assert seen == [str(i) for i in range(30)]


async def test_order_over_streams_within_a_millisecond(driver: ServerDriver) -> None:
    """Every call of its own takes up the clock of ids where the last one left it."""
    await driver.declare(topic("counter", "visits"), topic("counter", "orders"))
    await driver.command("SET", "clock", "9000000000000-0")  # time stands still
    for number in range(6):
        await driver.note(("topic:visits", "inbox:counter", "topic:orders")[number % 3], "a", str(number))
    worker = await driver.worker("counter")
    assert bodies(await worker.take()) == [str(number) for number in range(6)]


@pytest.mark.real_server("fakeredis keeps all sorted sets alike")
async def test_publishing_to_many_topics_searches_no_list(driver: ServerDriver) -> None:
    """Once many were read at once, those that may hold something are kept as a tree."""
    names = [f"t{i}" for i in range(40)]
    await driver.declare(*(topic("counter", name) for name in names))
    worker = await driver.worker("counter")
    for number in range(3):
        await driver.publish(*(posting(f"topic:{name}", "a", f"{name} {number}") for name in names))
        encoding = await driver.transport.admin.command(
            "OBJECT", "ENCODING", driver.transport.keys.of("fresh:counter")
        )
        assert encoding == (b"skiplist" if number else b"listpack")
        # A look at every stream would put all of them there.
        assert bodies((await worker.turn(count=100, scan=False)).deliveries) == [
            f"{name} {number}" for name in names
        ]
        await worker.finish_all()
        assert await driver.command("ZCARD", "fresh:counter") == 1
    assert (await worker.turn(count=100, scan=False)).deliveries == []
    assert await driver.command("EXISTS", "fresh:counter") == 0


NOTE = ("id", "m", "type", "Note", "key")  # as publishers store it, up to the key


async def test_what_several_streams_hold_at_once_comes_in_the_order_of_publishing(
    driver: ServerDriver,
) -> None:
    await driver.declare(topic("counter", "visits"), topic("counter", "orders"))
    streams = ["topic:visits", "inbox:counter", "topic:orders"]
    published = [posting(streams[i % 3], "ab"[i % 2], str(i)) for i in range(30)]
    await driver.publish(*published)
    worker = await driver.worker("counter")
    taken = await worker.take(100)
    assert bodies(taken) == [str(i) for i in range(30)]
    assert [one.stream.decode() for one in taken] == [one.stream for one in published]
    assert {one.raw_type for one in taken} == {b"counter"}
    await worker.finish_all()
    await driver.check_empty("counter")


async def test_of_several_streams_no_more_is_given_than_is_wanted(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), topic("counter", "orders"))
    streams = ["topic:visits", "inbox:counter", "topic:orders"]
    await driver.publish(*(posting(streams[i % 3], f"k{i}", str(i)) for i in range(12)))
    worker = await driver.worker("counter")
    seen: list[str] = []
    for count in (5, 5, 2, 0):
        turn = await worker.turn(count=5)
        assert len(turn.deliveries) == count
        assert turn.more is (len(seen) + count < 12)
        seen += bodies(turn.deliveries)
        await worker.finish_all()
    assert seen == [str(i) for i in range(12)]
    await driver.check_empty("counter")


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("5-4194310", "6-1"),
        ("18446744073709551614-5", "18446744073709551615-3"),
        ("5-1", "9000000000000-0"),
        ("9-1", "9-2"),
        ("9-9", "9-10"),
        ("9-1", "10-1"),
    ],
)
async def test_ids_that_a_person_chose_have_their_order_too(
    driver: ServerDriver, older: str, newer: str
) -> None:
    for first, second in (("visits", "orders"), ("orders", "visits")):
        await driver.declare(topic(first, "visits"), topic(first, "orders"))
        await driver.add_by_hand(f"topic:{second}", *NOTE, "a", "body", "newer", id=newer)
        await driver.add_by_hand(f"topic:{first}", *NOTE, "a", "body", "older", id=older)
        worker = await driver.worker(first)
        assert bodies(await worker.take(10)) == ["older", "newer"]
        for name in ("visits", "orders"):
            await driver.command("DEL", f"topic:{name}")


async def test_entries_with_one_id_in_two_streams_are_two(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), topic("counter", "orders"))
    for name in ("visits", "orders"):
        await driver.add_by_hand(f"topic:{name}", *NOTE, name, "body", name, id="5-1")
    worker = await driver.worker("counter")
    assert sorted(bodies(await worker.take(10))) == ["orders", "visits"]


async def test_what_is_newer_than_what_was_not_read_yet_waits_for_it(driver: ServerDriver) -> None:
    """Of three streams a turn reads a third of what the worker takes, of each: that is all of two, and not of the third."""
    await driver.declare(topic("counter", "visits"), topic("counter", "orders"))
    await driver.note("topic:visits", "a", *(str(i) for i in range(50)))
    await driver.note("topic:orders", "a", "50")
    await driver.note("inbox:counter", "a", "51")
    worker = await driver.worker("counter")
    seen: list[str] = []
    while got := bodies(await worker.take(100)):
        seen += got
    assert seen == [str(i) for i in range(52)]


async def test_of_several_streams_what_is_behind_a_busy_agent_is_parked_and_all_else_given(
    driver: ServerDriver,
) -> None:
    await driver.declare(topic("counter", "visits"), topic("counter", "orders"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "0")
    assert bodies(await first.take()) == ["0"]
    sent = [("visits", "b"), ("orders", "a"), ("orders", "b"), ("visits", "a"), ("orders", "c")]
    await driver.publish(*(posting(f"topic:{name}", key, str(i + 1)) for i, (name, key) in enumerate(sent)))
    assert bodies(await second.take()) == ["1", "3", "5"]
    assert bodies(await first.finish(*first.held, accept=True)) == ["2", "4"]
    await first.finish_all()
    await second.finish_all()
    await driver.check_empty("counter")


AHEAD = ("old", "new", "newest")  # of three streams a turn reads less of each than the worker takes


async def _all_of_three(driver: ServerDriver, size: int) -> None:
    await driver.declare(*(topic("counter", name) for name in AHEAD))
    wanted = [f"{name} {i} {'x' * size}" for name in AHEAD for i in range(30)]
    for body in wanted:
        name, number, _ = body.split(" ")
        await driver.note(f"topic:{name}", f"k{number}", body)
    worker = await driver.worker("counter")
    seen = []
    while got := bodies(await worker.take(10)):
        seen += got
    assert seen == wanted
    await worker.finish_all()
    await driver.check_empty("counter")


async def test_what_was_read_ahead_of_another_stream_comes_in_its_turn(driver: ServerDriver) -> None:
    await _all_of_three(driver, 0)


async def test_the_same_with_bodies_that_are_too_large_to_be_kept_until_then(driver: ServerDriver) -> None:
    await _all_of_three(driver, 2000)


async def test_what_was_read_ahead_is_what_its_stream_holds_when_the_data_were_replaced(
    driver: ServerDriver,
) -> None:
    """As of a primary that was cut off, and becomes one again when its tail is another: an id stands for another entry."""
    await driver.declare(*(topic("counter", name) for name in AHEAD))
    for name in AHEAD:
        await driver.note(f"topic:{name}", "k", *(f"{name} {i}" for i in range(5)))
    worker = await driver.worker("counter")
    assert bodies(await worker.take(1)) == ["old 0"]
    (read, _), *_ = await driver.command("XRANGE", "topic:newest", "-", "+")
    assert read.decode() in str(await driver.command("ZRANGE", "early:counter", 0, -1))
    await driver.command("DEL", "topic:newest")
    await driver.add_by_hand("topic:newest", "type", "Note", "key", "k", "body", "other", id=read.decode())
    await driver.command("HSET", "config", "ahead counter", "the last turn of the other server")
    seen = []
    while got := bodies(await worker.take(5)):
        seen += got
    assert seen[:10] == [*(f"old {i}" for i in range(1, 5)), *(f"new {i}" for i in range(5)), "other"]


@pytest.mark.parametrize("persistent", [True, False])
async def test_each_delivery_of_several_streams_in_turn_says_where_it_is_from(
    driver: ServerDriver, persistent: bool
) -> None:
    """Whatever else it brings: a sender, a time of its own, a state."""
    names = [f"topic:visits-{number}" for number in range(4)]
    await driver.declare(*(topic("counter", name.removeprefix("topic:")) for name in names))
    worker = await driver.worker("counter")
    by_hand = ("type", "Note", "key", "by-hand", "at", "5", "body", "by hand")
    await driver.add_by_hand(names[2], *by_hand, id="1-1")
    batch = [posting(names[number % 4], f"k{number}", str(number)) for number in range(12)]
    batch[5] = batch[5]._replace(envelope=batch[5].envelope._replace(sender="clerk/a"))
    await driver.publish(*batch)
    taken: list[Delivery] = []
    while len(taken) < 13:
        turn = await worker.turn(count=5, persistent=persistent)
        assert turn.deliveries
        taken += turn.deliveries
    assert bodies(taken) == ["by hand", *map(str, range(12))]
    assert [one.stream.decode() for one in taken] == [names[2], *(names[number % 4] for number in range(12))]
    assert [one.raw_key.decode() for one in taken] == ["by-hand", *(f"k{number}" for number in range(12))]
    assert taken[0].envelope.at == 5
    assert taken[6].envelope.sender == "clerk/a"
    await worker.finish_all()
    await driver.check_empty("counter")


async def test_a_second_agent_type_gets_its_own_copy(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), topic("audit", "visits"))
    await driver.note("topic:visits", "a", "1", "2")
    worker = await driver.worker("counter", "audit")
    taken = await worker.take()
    assert [(one.raw_type, one.envelope.body) for one in taken if one.raw_type == b"counter"] == [
        (b"counter", b"1"),
        (b"counter", b"2"),
    ]
    assert bodies([one for one in taken if one.raw_type == b"audit"]) == ["1", "2"]


@pytest.mark.parametrize("seed", range(4))
async def test_order_with_many_streams_and_workers(driver: ServerDriver, seed: int) -> None:
    """Any interleaving of takes and commits keeps each key in order and loses nothing."""
    chance = random.Random(seed)
    streams = [f"topic:t{i}" for i in range(12)] + ["inbox:counter"]
    await driver.declare(*(topic("counter", name.partition(":")[2]) for name in streams[:-1]))
    workers = [await driver.worker("counter") for _ in range(3)]
    keys = [f"k{i}" for i in range(7)]
    handled: dict[str, list[int]] = {key: [] for key in keys}
    number = dict.fromkeys(keys, 0)
    to_send = 300

    async def send(count: int) -> None:
        batch = []
        for _ in range(count):
            key = chance.choice(keys)
            batch.append(posting(chance.choice(streams), key, str(number[key])))
            number[key] += 1
        await driver.publish(*batch)

    quiet = 0
    while to_send or quiet < 8:
        if to_send:
            count = min(to_send, chance.randint(1, 25))
            await send(count)
            to_send -= count
        worker = chance.choice(workers)
        before = len(worker.held)
        await worker.take(chance.randint(1, 9))
        firsts = {one.raw_key: one for one in reversed(worker.held)}
        chosen = [one for one in firsts.values() if chance.random() < 0.7]
        for one in chosen:
            handled[one.raw_key.decode()].append(int(one.envelope.body))
        await worker.finish(*chosen, accept=chance.random() < 0.5)
        quiet = quiet + 1 if not before and not worker.held and not any(w.held for w in workers) else 0
    assert handled == {key: list(range(number[key])) for key in keys}
    await driver.check_empty("counter")


async def test_few_entries_are_read_ahead_of_a_long_backlog(driver: ServerDriver) -> None:
    """What is read ahead takes memory twice, so a slow worker must not read a whole backlog ahead."""
    topics = [f"t{i}" for i in range(20)]
    await driver.declare(*(topic("counter", name) for name in topics))
    for name in topics:
        await driver.publish(*(posting(f"topic:{name}", f"k{i}") for i in range(100)))
    worker = await driver.worker("counter")
    most = 0
    for _ in range(100):
        await worker.finish(*await worker.take(5))
        most = max(most, int(await driver.command("ZCARD", "early:counter")))
    assert most <= 500
