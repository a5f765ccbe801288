"""The server loses something, or has no room: workers go on, nothing is handled twice, nothing is lost in silence."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from broker.errors import FencedError, OverloadedError
from broker.redis.lane import Done
from tests.helpers.rig import Rig, bodies, posting, topic


async def _destroy(rig: Rig, stream: str, group: str) -> None:
    await rig.transport.admin.command("XGROUP", "DESTROY", rig.transport.keys.of(stream), group)


async def test_a_group_that_was_destroyed_goes_on_where_it_was(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"))
    worker = await rig.worker("counter")
    await rig.note("topic:visits", "a", "1", "2")
    await worker.finish(*await worker.take(1))
    await _destroy(rig, "topic:visits", "counter")
    await rig.note("topic:visits", "a", "3")
    assert bodies(await worker.take()) == ["2", "3"]
    await worker.finish_all()
    await rig.check_empty("counter")


async def test_what_was_held_when_the_group_vanished_is_still_committed_once(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"), topic("audit", "log"))
    first, second = await rig.worker("counter"), await rig.worker("counter", "audit")
    await rig.note("topic:visits", "a", "1")
    (one,) = await first.take()
    await rig.note("topic:visits", "a", "2")
    await second.take(5, "counter")
    await _destroy(rig, "topic:visits", "counter")
    await rig.note("topic:visits", "b", "3")
    assert bodies(await second.take(5, "counter")) == ["3"]
    out = (1, "topic:log", 0, "o1", "Note", "a", "", b"", b"out")
    turn = await first.turn(Done(one, "CO", out), accept=True)
    assert bodies(turn.deliveries) == ["2"]
    assert bodies(await second.take(5, "audit")) == ["out"]
    await first.finish_all()
    await second.finish_all()
    await rig.check_empty("counter", "audit")


async def test_a_deleted_stream_is_made_again(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"))
    first, second = await rig.worker("counter"), await rig.worker("counter")
    await rig.note("topic:visits", "a", "1")
    (one,) = await first.take()
    await rig.note("topic:visits", "a", "parked")
    await second.take()
    await rig.command("DEL", "topic:visits")
    await rig.note("topic:visits", "b", "2")
    assert bodies(await second.take()) == ["2"]
    assert await first.finish(one, accept=True) == [], "what waited behind it is gone"
    await rig.note("topic:visits", "a", "3")
    assert bodies(await second.take()) == ["3"]
    await second.finish_all()
    await rig.check_empty("counter")


async def test_a_deleted_entry_does_not_stop_what_waits_behind_it(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"))
    first, second = await rig.worker("counter"), await rig.worker("counter")
    await rig.note("topic:visits", "a", "1")
    held = await first.take()
    await rig.note("topic:visits", "a", *(str(i) for i in range(2, 40)))
    await second.take(100)
    for entry in (await rig.command("XRANGE", "topic:visits", "-", "+"))[1:30]:
        await rig.command("XDEL", "topic:visits", entry[0])
    seen = []
    while held := await first.finish(*held, accept=True):
        seen += bodies(held)
    assert seen == [str(i) for i in range(31, 40)]
    await rig.check_empty("counter")


async def test_after_flushall_a_worker_is_fenced_and_begins_again(rig: Rig, server_url: str) -> None:
    await rig.declare(topic("counter", "visits"))
    worker = await rig.worker("counter")
    await rig.note("topic:visits", "a", "1")
    (one,) = await worker.take()
    await rig.transport.delete_namespace()
    with pytest.raises(FencedError):
        await worker.finish(one)
    assert await rig.snapshot() == {}
    await rig.declare(topic("counter", "visits"))
    await worker.lane.join(["counter"])
    await rig.note("topic:visits", "a", "2")
    assert bodies(await worker.take()) == ["2"]


@pytest.fixture
async def full(rig: Rig) -> AsyncIterator[None]:
    """The server may be made to refuse what needs memory."""
    command = rig.transport.admin.command
    await command("CONFIG", "SET", "maxmemory-policy", "noeviction")
    yield
    await command("CONFIG", "SET", "maxmemory", "0")


@pytest.mark.real_server("it has no maxmemory")
@pytest.mark.usefixtures("full")
async def test_a_full_server_refuses_to_publish_and_still_commits(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"))
    worker = await rig.worker("counter")
    await rig.note("topic:visits", "a", "1", "2")
    one, two = await worker.take()
    await rig.transport.admin.command("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(OverloadedError):
        await rig.publish(posting("topic:visits", "a", "3"))
    with pytest.raises(OverloadedError):
        await rig.publish(posting("topic:visits", "a", "3", once="x"), posting("topic:unseen", "a", "4"))
    out = (1, "topic:visits", 0, "o1", "Note", "b", "", b"", b"out")
    turn = await worker.turn(Done(one, "CMSO", (1, b"s", *out)), count=5)
    assert bodies(turn.deliveries) == ["out"]
    assert (await worker.beat())[0] == b"OK"
    assert (await worker.lane.resync())[0].body == b"2"
    await worker.turn(Done(two, "C", ()))
    await rig.transport.admin.command("CONFIG", "SET", "maxmemory", "0")
    assert await rig.publish(posting("topic:visits", "a", "3", once="x")) == [True], "it was not sent before"
    assert bodies(await worker.take()) == ["3"]


@pytest.mark.real_server("it has no maxmemory")
@pytest.mark.usefixtures("full")
async def test_a_worker_of_a_full_server_may_join_and_leave(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"))
    first = await rig.worker("counter")
    await rig.note("topic:visits", "a", "1")
    await first.take()
    await rig.transport.admin.command("CONFIG", "SET", "maxmemory", "1")
    await first.lane.leave()
    second = await rig.worker("counter")
    assert bodies(await second.take()) == ["1"]
    await second.finish_all()


async def test_what_is_taken_in_the_turn_that_mends_the_group_is_pending(rig: Rig) -> None:
    """Else trimming would take it, and a worker that dies with it would take it along."""
    await rig.declare(topic("counter", "visits"))
    first, second = await rig.worker("counter"), await rig.worker("counter")
    await rig.note("topic:visits", "a", "1")
    held = await first.take()
    await rig.note("topic:visits", "a", "2")
    await second.take()
    await first.finish(*held, accept=False)
    await rig.transport.admin.command("XGROUP", "DESTROY", rig.transport.keys.of("topic:visits"), "counter")
    await rig.note("topic:visits", "b", "3")
    assert bodies(await second.take()) == ["2", "3"]
    assert await rig.pending("topic:visits", "counter") == 2
