"""Subscriptions that end and begin again, and groups that vanish: nothing that a type has in hand is lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from callboard.broker.redis.client.publisher import message_values
from callboard.broker.redis.client.transport import Declared
from callboard.broker.redis.library import Mark
from callboard.broker.redis.operations.repair import find
from tests.helpers.commits import Done
from tests.helpers.server_driver import DrivenWorker, ServerDriver, bodies, posting, topic

EVERYTHING_GOES = -100  # entries to retain so that whatever may be trimmed is trimmed
BODIES = [str(number) for number in range(200)]  # one node of a stream holds 100


def prefix(agent_type: str, name: str) -> Declared:
    return Declared(agent_type, "prefix", name)


async def _leave(driver: ServerDriver, agent_type: str = "counter", name: str = "visits") -> None:
    assert await driver.run("unsubscribe", agent_type, "topic", name) == 1


async def _destroy(driver: ServerDriver, agent_type: str, stream: str = "topic:visits") -> None:
    await driver.transport.admin.command("XGROUP", "DESTROY", driver.transport.keys.of(stream), agent_type)


async def _groups(driver: ServerDriver, stream: str = "topic:visits") -> set[str]:
    found = await driver.transport.admin.command("XINFO", "GROUPS", driver.transport.keys.of(stream))
    return {group[1].decode() for group in found}


async def _all_of(worker: DrivenWorker, count: int = 500) -> list[str]:
    """Takes and commits until nothing comes."""
    seen: list[str] = []
    while await worker.take(count):
        seen += bodies(worker.held)
        await worker.finish_all()
    return seen


async def _hand_over(worker: DrivenWorker) -> list[str]:
    """Commits what it holds and what it is handed for it, to the end."""
    seen: list[str] = []
    while worker.held:
        seen += bodies(worker.held)
        await worker.finish(*worker.held, accept=True)
    return seen


async def _trim(*workers: DrivenWorker) -> None:
    for _ in range(4):
        for worker in workers:
            assert (await worker.beat(retain=EVERYTHING_GOES))[0] == b"OK"


async def _parked(driver: ServerDriver, *others: Declared) -> DrivenWorker:
    """One entry is held by the worker that is returned, the others are parked behind it."""
    await driver.declare(topic("counter", "visits"), *others)
    worker, other = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", *BODIES)
    await worker.take(1)
    assert await other.take(500) == []
    return worker


# Ending a subscription


async def test_what_is_parked_when_a_subscription_ends_is_handled_and_then_the_group_goes(
    driver: ServerDriver,
) -> None:
    worker = await _parked(driver, topic("audit", "visits"))
    audit = await driver.worker("audit")
    await _leave(driver)
    assert await _all_of(audit) == BODIES
    await _trim(audit, worker)
    assert await _hand_over(worker) == BODIES
    assert await _groups(driver) == {"counter", "audit"}
    await _trim(audit)
    assert await _groups(driver) == {"audit"}
    assert await driver.mapping("leaving") == {}
    await driver.note("topic:visits", "a", *BODIES)
    assert (await _all_of(audit), await _all_of(worker)) == (BODIES, [])
    await _trim(audit)
    assert await driver.command("XLEN", "topic:visits") <= 100
    await driver.check_empty("counter", "audit")


async def test_a_type_that_left_with_nothing_in_hand_leaves_no_group(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), topic("audit", "visits"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    assert await _all_of(worker) == ["1"]
    await _leave(driver)
    assert (await _groups(driver), await driver.mapping("leaving")) == ({"audit"}, {})


async def test_all_that_a_type_that_left_has_in_hand_stays(driver: ServerDriver) -> None:
    """Held, backing off, put aside, read ahead of another topic."""
    await driver.declare(topic("counter", "visits"), topic("counter", "orders"), topic("audit", "orders"))
    worker, audit = await driver.worker("counter"), await driver.worker("audit")
    await driver.note("topic:orders", "again", "again 1", "again 2")
    again, after = await worker.take()
    await worker.turn(Done(again, Mark.RETRY + Mark.MORE, (1, 1, "", "no")), Done(after, Mark.RELEASE, ()))
    await driver.run("control", "pause", "key", "counter/aside", "me")
    await driver.note("topic:orders", "aside", "aside 1", "aside 2")
    await driver.note("topic:orders", "held", "held 1", "held 2")
    await worker.take()
    for number in range(40):
        await driver.note("topic:visits", "filler", str(number))
    for number in range(1, 21):
        await driver.note("topic:orders", "early", f"early {number}")
    await worker.take(10)
    assert await driver.command("ZCARD", "early:counter") > 0
    await _leave(driver, name="orders")
    await driver.note("topic:orders", "not", *BODIES)
    await _all_of(audit)
    await _trim(audit, worker)
    await driver.run("control", "resume", "key", "counter/aside", "me")
    await driver.command("ZADD", "timers", 1, "k|counter|again")
    seen = bodies(worker.held)
    await worker.finish_all()
    seen += await _all_of(worker)
    for key in ("again", "aside", "held"):
        assert [one for one in seen if one.startswith(key)] == [f"{key} 1", f"{key} 2"]
    early = [one for one in seen if one.startswith("early")]
    assert early == [f"early {number}" for number in range(1, len(early) + 1)] != []
    await _trim(audit)
    assert await _groups(driver, "topic:orders") == {"audit"}
    await driver.check_empty("counter")


async def test_what_a_type_that_left_never_reads_is_trimmed(driver: ServerDriver) -> None:
    """One entry that it still holds keeps itself, and not all that came after it."""
    await driver.declare(topic("counter", "visits"), topic("audit", "visits"))
    worker, audit = await driver.worker("counter"), await driver.worker("audit")
    await driver.note("topic:visits", "a", "held")
    await worker.take()
    await _leave(driver)
    for _ in range(8):
        await driver.publish(*(posting("topic:visits", f"k{i}") for i in range(500)))
    await _all_of(audit)
    await _trim(audit, audit, audit)
    assert await driver.command("XLEN", "topic:visits") <= 2000
    (first, *_) = await driver.entries("topic:visits")
    assert first["body"] == b"held"


async def test_publishers_do_not_wait_for_a_type_that_left(driver: ServerDriver) -> None:
    worker = await _parked(driver, topic("audit", "visits"))
    audit = await driver.worker("audit")
    await _leave(driver)
    await driver.note("topic:visits", "b", *BODIES)
    await _all_of(audit)
    statuses = await _statuses(driver, "b", max_backlog=len(BODIES) + 2)
    assert statuses == [], "what it never reads is no backlog"
    assert await _statuses(driver, "b", max_backlog=len(BODIES)) == [b"full"], "what it has in hand is"
    assert await _hand_over(worker) == BODIES


async def _statuses(driver: ServerDriver, key: str, max_backlog: int) -> list[bytes]:
    """What a publisher with this limit is told about one message."""
    values = message_values([posting("topic:visits", key, b"")])
    answer = await driver.run(
        "publish", f"p{max_backlog}", 1, f"60000 100000 {max_backlog} 0", 1, "", *values
    )
    return list(answer[3::2])


async def test_a_topic_that_nobody_reads_any_more_keeps_what_is_in_hand(driver: ServerDriver) -> None:
    worker = await _parked(driver)
    await _leave(driver)
    notes = [posting("topic:visits", "b", b"new") for _ in range(500)]
    answer = await driver.run("publish", "p", 1, "60000 100 0 0", len(notes), "", *message_values(notes))
    assert answer[1] == b"visits", "its publishers are told"
    for _ in range(3):
        await worker.beat(max_unclaimed=100)
    assert await _hand_over(worker) == BODIES
    for _ in range(3):
        await worker.beat(max_unclaimed=100)
    await driver.run("publish", "p", 2, "60000 100 0 0", 1, "", *message_values(notes[:1]))
    assert await driver.command("XLEN", "topic:visits") <= 200
    assert await _groups(driver) == set()


async def test_a_group_that_is_to_go_and_vanishes_before_is_made_again(driver: ServerDriver) -> None:
    worker = await _parked(driver, topic("audit", "visits"))
    audit = await driver.worker("audit")
    await _leave(driver)
    await _all_of(audit)
    await _destroy(driver, "counter")
    await _trim(audit, worker)
    assert await driver.pending("topic:visits", "counter") == len(BODIES)
    assert await _hand_over(worker) == BODIES
    await _trim(audit)
    assert await _groups(driver) == {"audit"}


async def test_a_type_that_leaves_without_its_group_keeps_what_it_has_in_hand(driver: ServerDriver) -> None:
    worker = await _parked(driver, topic("audit", "visits"))
    audit = await driver.worker("audit")
    await _destroy(driver, "counter")
    await _leave(driver)
    await _all_of(audit)
    await _trim(audit, worker)
    assert await _hand_over(worker) == BODIES
    await _trim(audit)
    assert await _groups(driver) == {"audit"}


async def test_a_stream_that_is_gone_is_not_waited_for(driver: ServerDriver) -> None:
    worker = await _parked(driver, topic("audit", "visits"))
    await _leave(driver)
    await driver.command("DEL", "topic:visits")
    await _trim(worker)
    assert await driver.mapping("leaving") == {}
    await driver.command("SET", "topic:orders", "no stream")
    await driver.command("HSET", "leaving", "topic:orders", "counter")
    await _trim(worker)
    assert await driver.mapping("leaving") == {}


async def test_a_group_that_is_to_go_is_no_fault(driver: ServerDriver) -> None:
    """Nor are the consumers of it whose workers are gone."""
    worker = await _parked(driver, topic("audit", "visits"))
    await _leave(driver)
    assert await find(driver.transport) == ()
    await driver.expire(driver.workers[1])
    await worker.beat()
    assert await find(driver.transport) == ()
    assert await _hand_over(worker) == BODIES
    assert await find(driver.transport) == ()


async def test_the_bytes_of_what_is_in_hand_stay(driver: ServerDriver) -> None:
    """Also when all the subscribers that are left have handled the message."""
    await driver.declare(topic("counter", "visits"), topic("audit", "visits"))
    worker, audit = await driver.worker("counter"), await driver.worker("audit")
    pointer = b'{"claim":"blob:large","bytes":3}'
    values = (*message_values([posting("topic:visits", "a", pointer, id="m1")]), "blob:large", b"abc")
    await driver.run("publish", "p", 1, "60000 1000 0 0", 1, 0, *values)
    await worker.take()
    await _leave(driver)
    (one,) = await audit.take()
    await audit.turn(Done(one, Mark.COMMIT + Mark.CLAIMS, ("blob:large", 0)))
    assert await driver.command("HGET", "blob:large", "body") == b"abc"
    (one,) = worker.held
    await worker.turn(Done(one, Mark.COMMIT + Mark.CLAIMS, ("blob:large", 0)))
    assert await driver.command("EXISTS", "blob:large") == 0


# Groups that vanish


@pytest.mark.parametrize("lost", ["counter", "audit"])
async def test_nothing_is_trimmed_while_a_group_is_missing(driver: ServerDriver, lost: str) -> None:
    await driver.declare(topic("counter", "visits"), topic("audit", "visits"))
    workers = {name: await driver.worker(name) for name in ("counter", "audit")}
    await driver.note("topic:visits", "a", *BODIES)
    (first,) = await workers[lost].take(1)
    other = next(name for name in workers if name != lost)
    assert await _all_of(workers[other]) == BODIES
    await _destroy(driver, lost)
    await _trim(*workers.values())
    assert await driver.command("XLEN", "topic:visits") == len(BODIES)
    await workers[lost].finish(first)
    assert await _all_of(workers[lost]) == BODIES[1:]
    await _trim(*workers.values())
    assert await driver.command("XLEN", "topic:visits") <= 100


async def test_what_was_parked_by_a_group_that_vanished_is_not_trimmed(driver: ServerDriver) -> None:
    worker = await _parked(driver, topic("audit", "visits"))
    audit = await driver.worker("audit")
    assert await _all_of(audit) == BODIES
    await _destroy(driver, "counter")
    await _trim(audit, worker)
    await driver.note("topic:visits", "b", "new")
    other = driver.workers[1]
    assert bodies(await other.take()) == ["new"]
    await _all_of(audit)
    await _trim(audit, worker)
    assert await _hand_over(worker) == BODIES


@pytest.mark.real_server("it has no maxmemory")
async def test_nor_when_the_memory_is_full(driver: ServerDriver) -> None:
    worker = await _parked(driver, topic("audit", "visits"))
    audit = await driver.worker("audit")
    assert await _all_of(audit) == BODIES
    await _destroy(driver, "counter")
    await driver.transport.admin.command("CONFIG", "SET", "maxmemory", "1")
    try:
        await audit.beat()
    finally:
        await driver.transport.admin.command("CONFIG", "SET", "maxmemory", "0")
    assert await _hand_over(worker) == BODIES


async def test_an_inbox_that_lost_its_group_is_not_read_again_from_its_first_entry(
    driver: ServerDriver,
) -> None:
    await driver.declare(types=["counter"])
    worker = await driver.worker("counter")
    await driver.note("inbox:counter", "a", "1", "2", "3")
    await worker.finish(*await worker.take(1))
    await worker.take(1)
    await _destroy(driver, "counter", "inbox:counter")
    await driver.declare(types=["counter"])
    assert await driver.pending("inbox:counter", "counter") == 1
    await worker.finish_all()
    assert await _all_of(worker) == ["3"]


async def test_a_group_that_vanishes_before_it_is_given_anything_begins_where_it_began(
    driver: ServerDriver,
) -> None:
    await driver.declare(topic("counter", "visits"))
    await driver.note("topic:visits", "a", "old")
    await driver.declare(topic("audit", "visits"))
    await _destroy(driver, "audit")
    await driver.note("topic:visits", "a", "new")
    assert await _all_of(await driver.worker("audit")) == ["new"]


async def test_ids_of_deleted_entries_do_not_hide_what_is_pending_from_the_sweep(
    driver: ServerDriver,
) -> None:
    """The sweep looks at so many entries; there may be many more pending ids between them."""
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    for start in range(0, 5000, 500):
        await driver.publish(*(posting("topic:visits", f"k{start + i}", "x") for i in range(500)))
    while await worker.take(500):
        pass
    ids = [entry[0] for entry in await driver.command("XRANGE", "topic:visits", "-", "+")]
    for entry in ids[1:2500]:
        await driver.command("XDEL", "topic:visits", entry)
    assert (await worker.beat(retain=100))[0] == b"OK"
    assert await driver.command("XLEN", "topic:visits") == 2501


# Subscribing again


@pytest.mark.parametrize("is_alone", [True, False], ids=["alone", "another meanwhile"])
@pytest.mark.parametrize("was_read", [True, False], ids=["after reading", "before reading"])
async def test_a_type_that_subscribes_again_goes_on_where_it_was(
    driver: ServerDriver, is_alone: bool, was_read: bool
) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    seen = await _all_of(worker) if was_read else []
    await _leave(driver)
    await driver.note("topic:visits", "a", "2")
    if not is_alone:
        await driver.declare(topic("audit", "visits"))
    await driver.note("topic:visits", "a", "3")
    assert await _all_of(worker) == []
    await driver.declare(topic("counter", "visits"))
    await driver.note("topic:visits", "a", "4")
    assert seen + await _all_of(worker) == ["1", "2", "3", "4"]


async def test_a_later_type_that_never_read_anything_goes_on_where_it_began(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    await driver.note("topic:visits", "a", "old")
    await driver.declare(topic("audit", "visits"))
    await _leave(driver, "audit")
    await driver.note("topic:visits", "a", "between")
    await driver.declare(topic("audit", "visits"))
    assert await _all_of(await driver.worker("audit")) == ["between"]


async def test_a_type_that_subscribes_again_before_it_was_done_has_everything_once_and_in_order(
    driver: ServerDriver,
) -> None:
    worker = await _parked(driver, topic("audit", "visits"))
    audit = await driver.worker("audit")
    await _leave(driver)
    await driver.note("topic:visits", "a", "between")
    await driver.declare(topic("counter", "visits"))
    assert await driver.mapping("leaving") == {}
    await driver.note("topic:visits", "a", "after")
    await _all_of(audit)
    await _trim(audit, worker)
    assert await driver.workers[1].take() == []
    assert await _hand_over(worker) == [*BODIES, "between", "after"]
    await _trim(audit, worker)
    assert await _groups(driver) == {"counter", "audit"}
    await driver.check_empty("counter", "audit")


async def test_the_same_when_its_group_vanished_in_between(driver: ServerDriver) -> None:
    worker = await _parked(driver, topic("audit", "visits"))
    audit = await driver.worker("audit")
    await _leave(driver)
    await _destroy(driver, "counter")
    await driver.declare(topic("counter", "visits"))
    assert await driver.pending("topic:visits", "counter") == len(BODIES)
    await driver.note("topic:visits", "a", "after")
    await _all_of(audit)
    await _trim(audit, worker)
    await driver.workers[1].take()
    assert await _hand_over(worker) == [*BODIES, "after"]


async def test_what_the_others_had_handled_meanwhile_may_be_trimmed(driver: ServerDriver) -> None:
    """The limit of going on: who does not subscribe keeps nothing."""
    await driver.declare(topic("counter", "visits"), topic("audit", "visits"))
    worker, audit = await driver.worker("counter"), await driver.worker("audit")
    await _leave(driver)
    await driver.note("topic:visits", "a", *BODIES)
    assert await _all_of(audit) == BODIES
    await _trim(audit)
    left = [entry["body"].decode() for entry in await driver.entries("topic:visits")]
    assert len(left) <= 100
    await driver.declare(topic("counter", "visits"))
    await driver.note("topic:visits", "a", "new")
    assert await _all_of(worker) == [*left, "new"]


# Prefixes


async def _end_prefix(driver: ServerDriver, name: str, others: Sequence[Declared] = ()) -> bool:
    return await driver.transport.unsubscribe(prefix("counter", name), others)


async def test_a_prefix_that_is_made_again_goes_on_in_every_topic(driver: ServerDriver) -> None:
    await driver.declare(prefix("counter", "order."), topic("audit", "order.eu"))
    worker = await driver.worker("counter")
    await driver.note("topic:order.eu", "a", "1")
    await driver.note("topic:order.us", "b", "2")
    assert await _all_of(worker) == ["1", "2"]
    await driver.note("topic:order.us", "b", "3")
    assert await _end_prefix(driver, "order.")
    await driver.note("topic:order.eu", "a", "4")
    await driver.note("topic:order.us", "b", "5")
    await driver.note("topic:order.cn", "c", "6")
    assert await _all_of(worker) == []
    await driver.declare(prefix("counter", "order."))
    await driver.note("topic:order.jp", "d", "7")
    assert await _all_of(worker) == ["3", "4", "5", "6", "7"]


async def test_the_topics_of_a_prefix_end_with_it_and_what_is_in_hand_is_handled(
    driver: ServerDriver,
) -> None:
    await driver.declare(prefix("counter", "order."))
    worker = await driver.worker("counter")
    await driver.note("topic:order.eu", "a", "1", "2")
    await worker.take(2)
    assert await _end_prefix(driver, "order.")
    assert await driver.mapping("topics") == {"order.eu": ""}
    assert await driver.command("SMEMBERS", "streams:counter") == [b"inbox:counter"]
    await driver.note("topic:order.eu", "a", "not")
    assert await _hand_over(worker) == ["1", "2"]
    assert await _all_of(worker) == []
    await _trim(worker)
    assert await _groups(driver, "topic:order.eu") == set()


async def test_a_topic_stays_while_another_prefix_of_the_type_brings_it(driver: ServerDriver) -> None:
    """Whichever process declared that one."""
    await driver.declare(
        prefix("counter", "order."), prefix("counter", "order.e"), topic("counter", "order.eu")
    )
    worker = await driver.worker("counter")
    await driver.note("topic:order.eu", "a", "1")
    await driver.note("topic:order.us", "a", "2")
    assert await _all_of(worker) == ["1", "2"]
    assert await _end_prefix(driver, "order.")
    await _leave(driver, name="order.eu")
    await driver.note("topic:order.eu", "a", "3")
    await driver.note("topic:order.us", "a", "not")
    assert await _all_of(worker) == ["3"]
    assert await _end_prefix(driver, "order.e")
    await driver.note("topic:order.eu", "a", "nor")
    assert await _all_of(worker) == []
