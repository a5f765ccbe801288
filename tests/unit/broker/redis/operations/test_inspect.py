from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from callboard.broker.codec import pack
from callboard.broker.errors import DecodeError
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.operations import entries as stream_entries, inspect
from callboard.broker.redis.operations.entries import StreamEntry
from callboard.broker.redis.operations.views import AgentTypeView, Overview, TopicView
from tests.helpers.commits import Done
from tests.unit.broker.redis.servers import WorkerDriver, driver, server_url, transport

__all__ = ["driver", "server_url", "transport"]


def type_of(overview: Overview, name: str) -> AgentTypeView:
    return next(view for view in overview.types if view.type == name)


def topic_of(overview: Overview, name: str) -> TopicView:
    return next(view for view in overview.topics if view.type == name)


async def add_by_hand(transport: RedisTransport, stream: str, *fields: str | bytes) -> None:
    await transport.admin.command("XADD", transport.keys.of(stream), "*", *fields)


async def test_a_new_namespace_is_all_zeros(transport: RedisTransport) -> None:
    overview = await inspect.overview(transport)

    assert overview.namespace == transport.settings.namespace
    assert [view.type for view in overview.types] == ["audit", "counter"]
    assert [view.type for view in overview.topics] == ["orders", "visits"]
    assert topic_of(overview, "visits").subscribers == ("counter", "audit")
    assert type_of(overview, "counter").streams == ("inbox:counter", "topic:orders", "topic:visits")
    assert overview.totals.waiting == 0
    assert overview.workers == ()
    assert (overview.timers, overview.next_due) == (0, None)


async def test_unread_entries_are_queued_for_every_subscriber(driver: WorkerDriver) -> None:
    for key in ("ada", "bob", "cyd"):
        await driver.publish("topic:visits", key)
    await driver.publish("topic:orders", "ada")
    await driver.publish("inbox:audit", "x")

    overview = await inspect.overview(driver.transport)

    assert type_of(overview, "counter").waiting == 4
    assert type_of(overview, "audit").waiting == 4
    assert overview.totals.waiting == 8
    groups = {group.type: (group.unread, group.pending) for group in topic_of(overview, "visits").groups}
    assert groups == {"counter": (3, 0), "audit": (3, 0)}


async def test_a_worker_and_what_it_holds(driver: WorkerDriver) -> None:
    await driver.publish("topic:visits", "ada", id="first")
    await driver.publish("topic:visits", "bob")
    taken = await driver.take("counter")

    overview = await inspect.overview(driver.transport)
    held = await inspect.held_by(driver.transport, driver.lane.worker)

    assert type_of(overview, "counter").held == 2
    assert (type_of(overview, "counter").waiting, type_of(overview, "counter").running) == (2, 0)
    assert type_of(overview, "counter").workers == 1
    (worker,) = overview.workers
    assert worker.name == driver.lane.worker
    assert worker.types == ("counter", "audit")
    assert worker.held == 2
    assert 0 < worker.lease_ms_left <= 5000
    assert abs((worker.started or 0) - overview.at) < 5000
    assert [(entry.type, entry.key, entry.stream) for entry in held] == [
        ("counter", "ada", "topic:visits"),
        ("counter", "bob", "topic:visits"),
    ]
    assert held[0].entry == taken[0].delivery.entry.decode()
    await driver.finish(*taken)
    after = await inspect.overview(driver.transport)
    assert type_of(after, "counter").done == 2
    assert (type_of(after, "counter").held, type_of(after, "counter").waiting) == (0, 0)
    assert await inspect.held_by(driver.transport, "nobody:1:1") == ()


async def test_what_waits_behind_a_key_that_backs_off(driver: WorkerDriver) -> None:
    await driver.publish("topic:visits", "ada")
    (first,) = await driver.take("counter")
    await driver.finish(Done(first.delivery, "R", (60_000, 1, "", "ValueError: no")))
    await driver.publish("topic:visits", "ada")
    await driver.take("counter")

    overview = await inspect.overview(driver.transport)
    waiting = await inspect.waiting(driver.transport, "counter", "ada")
    (timer,) = await inspect.timers(driver.transport)

    view = type_of(overview, "counter")
    assert (view.backing_off, view.parked, view.waiting, view.running, view.retried) == (1, 2, 2, 0, 1)
    assert waiting.holder is None
    assert waiting.resumes is not None
    assert 0 < waiting.resumes - overview.at <= 60_000
    assert [(entry.attempts, entry.reason) for entry in waiting.entries] == [(1, "ValueError: no"), (0, "")]
    assert waiting.entries[0].entry == first.delivery.entry.decode()
    assert (timer.agent, timer.stream, timer.due) == ("counter/ada", None, waiting.resumes)
    assert overview.next_due == waiting.resumes


async def test_who_runs_an_agent(driver: WorkerDriver) -> None:
    await driver.publish("topic:visits", "ada")
    await driver.take("counter")

    waiting = await inspect.waiting(driver.transport, "counter", "ada")

    assert (waiting.holder, waiting.resumes, waiting.entries) == (driver.lane.worker, None, ())


async def test_delayed_messages_are_timers(driver: WorkerDriver) -> None:
    await driver.publish("topic:visits", "ada", due=60_000, id="later")

    overview = await inspect.overview(driver.transport)
    (timer,) = await inspect.timers(driver.transport)

    assert overview.timers == 1
    assert (timer.message_id, timer.message_type, timer.stream, timer.agent) == (
        "later",
        "Visit",
        "topic:visits",
        "ada",
    )
    assert timer.due == overview.next_due


async def test_the_backlog_is_counted_where_the_server_does_not_say(driver: WorkerDriver) -> None:
    await driver.publish("topic:visits", "ada")
    await driver.take("counter", 1)
    for _ in range(5):
        await driver.publish("topic:visits", "bob")
    name = driver.transport.keys.of("topic:visits")
    entries = await driver.transport.admin.command("XRANGE", name, "-", "+")
    await driver.transport.admin.command("XDEL", name, entries[3][0])

    overview = await inspect.overview(driver.transport)

    groups = {group.type: group.unread for group in topic_of(overview, "visits").groups}
    assert groups == {"counter": 4, "audit": 5}


async def test_a_backlog_that_is_too_long_to_count_is_unknown_and_not_zero(driver: WorkerDriver) -> None:
    admin, name = driver.transport.admin, driver.transport.keys.of("topic:visits")
    for _ in range(2300):
        admin_future = admin.command("XADD", name, "*", "type", "Visit", "key", "k", "body", "{}")
        await admin_future
    entries = await admin.command("XRANGE", name, "-", "+", "COUNT", 1150)
    await admin.command("XGROUP", "SETID", name, "audit", entries[-1][0])
    await admin.command("XDEL", name, (await admin.command("XREVRANGE", name, "+", "-", "COUNT", 3))[2][0])

    overview = await inspect.overview(driver.transport)

    groups = {group.type: group.unread for group in topic_of(overview, "visits").groups}
    assert groups["audit"] is None
    assert type_of(overview, "audit").waiting is None
    assert overview.totals.waiting is None


async def test_a_group_that_is_gone_counts_from_where_it_was(driver: WorkerDriver) -> None:
    await driver.publish("topic:visits", "ada")
    await driver.finish(*await driver.take("counter"))
    await driver.publish("topic:visits", "ada")
    await driver.publish("topic:visits", "ada")
    name = driver.transport.keys.of("topic:visits")
    await driver.transport.admin.command("XGROUP", "DESTROY", name, "counter")

    overview = await inspect.overview(driver.transport)

    assert type_of(overview, "counter").waiting == 2


async def test_a_stream_that_was_deleted_has_length_zero(driver: WorkerDriver) -> None:
    await driver.publish("topic:visits", "ada")
    await driver.transport.admin.command("DEL", driver.transport.keys.of("topic:visits"))

    overview = await inspect.overview(driver.transport)

    view = topic_of(overview, "visits")
    assert (view.length, view.last_id, view.groups) == (0, "", ())


@pytest.mark.parametrize("kept", [0, 1])
async def test_what_was_trimmed_by_hand_does_not_wait(driver: WorkerDriver, kept: int) -> None:
    keys, admin = driver.transport.keys, driver.transport.admin
    for key in ("ada", "bob", "cyd", "dan"):
        await driver.publish("topic:visits", key)
    # One entry is read and acknowledged, so that the server knows how many are not.
    await admin.command(
        "XREADGROUP", "GROUP", "audit", "hand", "COUNT", 1, "STREAMS", keys.of("topic:visits"), ">"
    )
    for entry, *_ in await admin.command("XPENDING", keys.of("topic:visits"), "audit", "-", "+", 9):
        await admin.command("XACK", keys.of("topic:visits"), "audit", entry)
    await admin.command("XTRIM", keys.of("topic:visits"), "MAXLEN", kept)

    overview = await inspect.overview(driver.transport, ages=True)

    assert type_of(overview, "audit").waiting == kept
    assert (type_of(overview, "audit").oldest is None) == (kept == 0)


async def test_dead_letters_are_counted_now_and_for_ever(driver: WorkerDriver) -> None:
    await driver.publish("topic:visits", "ada")
    await driver.bury("counter")
    await driver.transport.admin.command("DEL", driver.transport.keys.of("dead:counter"))

    view = type_of(await inspect.overview(driver.transport), "counter")

    assert (view.dead, view.died) == (0, 1)


async def test_recent_entries_are_decoded_oldest_first(driver: WorkerDriver) -> None:
    for name in ("ada", "bob", "cyd"):
        await driver.publish("topic:visits", name, body=pack({"name": name}), id=name)

    entries = await stream_entries.recent(driver.transport, "topic:visits", 2)

    assert [entry.envelope.id for entry in entries if entry.envelope] == ["bob", "cyd"]
    assert [entry.payload() for entry in entries] == [{"name": "bob"}, {"name": "cyd"}]
    assert await stream_entries.recent(driver.transport, "topic:nothing") == ()


async def test_an_entry_added_by_hand_is_read_like_any_other(driver: WorkerDriver) -> None:
    await add_by_hand(driver.transport, "topic:visits", "type", "Visit", "body", '{"name":"Ada"}')

    (entry,) = await stream_entries.recent(driver.transport, "topic:visits")

    assert entry.envelope is not None
    assert entry.envelope.id == f"{entry.stream}:{entry.entry}"
    assert entry.envelope.key == "default"
    assert entry.envelope.at == int(entry.entry.split("-")[0])
    assert entry.payload() == {"name": "Ada"}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (("foo", "bar"), "type"),
        (("type", "Visit", "key", b"\xff"), "UTF-8"),
        (("type", "Visit", "head", b"\xc1"), "msgpack"),
    ],
)
async def test_junk_is_shown_with_what_is_wrong(
    driver: WorkerDriver, fields: tuple[str | bytes, ...], problem: str
) -> None:
    await add_by_hand(driver.transport, "topic:visits", *fields)

    (entry,) = await stream_entries.recent(driver.transport, "topic:visits")

    assert entry.envelope is None
    assert problem in entry.problem
    with pytest.raises(DecodeError):
        entry.payload()


async def next_of(following: AsyncIterator[StreamEntry], count: int) -> list[str]:
    found: list[str] = []
    async with asyncio.timeout(10):
        while len(found) < count:
            entry = await anext(following)
            assert entry.envelope is not None
            found.append(entry.envelope.id)
    return found


async def test_following_from_the_start_merges_topics_in_the_order_of_publishing(
    driver: WorkerDriver,
) -> None:
    for number, topic in enumerate(["visits", "orders", "visits"]):
        await driver.publish(f"topic:{topic}", "ada", id=f"m{number}")

    following = stream_entries.follow(driver.transport, ["visits", "orders"], from_start=True)

    assert await next_of(following, 3) == ["m0", "m1", "m2"]
    await driver.publish("topic:visits", "ada", id="m3")
    assert await next_of(following, 1) == ["m3"]


async def test_following_begins_with_what_comes_next_also_in_new_topics(driver: WorkerDriver) -> None:
    await driver.publish("topic:visits", "ada", id="old")
    following = stream_entries.follow(driver.transport)

    first = asyncio.create_task(next_of(following, 2))
    while not first.done():
        # Until it listens what is published counts as old, so keep publishing.
        await driver.publish("topic:visits", "ada", id="new")
        await driver.publish("topic:surprise", "ada", id="new")
        await asyncio.wait({first}, timeout=0.05)

    assert first.result() == ["new", "new"]


@pytest.mark.real_server("it lives in this process: there is no connection that could break")
async def test_following_goes_on_after_the_connection_broke(driver: WorkerDriver) -> None:
    await driver.publish("topic:visits", "ada", id="m0")
    following = stream_entries.follow(driver.transport, ["visits"], from_start=True)
    assert await next_of(following, 1) == ["m0"]

    await driver.transport.admin.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    await driver.publish("topic:visits", "ada", id="m1")

    assert await next_of(following, 1) == ["m1"]
