"""Order per agent key, over every stream that a type reads."""

from __future__ import annotations

import random

import pytest

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
