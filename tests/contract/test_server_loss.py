"""The server loses something, or has no room: workers go on, nothing is handled twice, nothing is lost in silence."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from callboard.broker.errors import FencedError, OverloadedError
from callboard.broker.redis.library import Mark
from tests.helpers.commits import Done
from tests.helpers.server_driver import ServerDriver, bodies, posting, topic


async def _destroy(driver: ServerDriver, stream: str, group: str) -> None:
    await driver.transport.admin.command("XGROUP", "DESTROY", driver.transport.keys.of(stream), group)


async def test_a_group_that_was_destroyed_goes_on_where_it_was(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1", "2")
    await worker.finish(*await worker.take(1))
    await _destroy(driver, "topic:visits", "counter")
    await driver.note("topic:visits", "a", "3")
    assert bodies(await worker.take()) == ["2", "3"]
    await worker.finish_all()
    await driver.check_empty("counter")


async def test_what_was_held_when_the_group_vanished_is_still_committed_once(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), topic("audit", "log"))
    first, second = await driver.worker("counter"), await driver.worker("counter", "audit")
    await driver.note("topic:visits", "a", "1")
    (one,) = await first.take()
    await driver.note("topic:visits", "a", "2")
    await second.take(5, "counter")
    await _destroy(driver, "topic:visits", "counter")
    await driver.note("topic:visits", "b", "3")
    assert bodies(await second.take(5, "counter")) == ["3"]
    out = (1, "topic:log", 0, "o1", "Note", "a", "", b"", b"out")
    turn = await first.turn(Done(one, Mark.COMMIT + Mark.OUTGOING, out), accept=True)
    assert bodies(turn.deliveries) == ["2"]
    assert bodies(await second.take(5, "audit")) == ["out"]
    await first.finish_all()
    await second.finish_all()
    await driver.check_empty("counter", "audit")


async def test_a_deleted_stream_is_made_again(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    (one,) = await first.take()
    await driver.note("topic:visits", "a", "parked")
    await second.take()
    await driver.command("DEL", "topic:visits")
    await driver.note("topic:visits", "b", "2")
    assert bodies(await second.take()) == ["2"]
    assert await first.finish(one, accept=True) == [], "what waited behind it is gone"
    await driver.note("topic:visits", "a", "3")
    assert bodies(await second.take()) == ["3"]
    await second.finish_all()
    await driver.check_empty("counter")


async def test_a_deleted_entry_does_not_stop_what_waits_behind_it(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    held = await first.take()
    await driver.note("topic:visits", "a", *(str(i) for i in range(2, 40)))
    await second.take(100)
    for entry in (await driver.command("XRANGE", "topic:visits", "-", "+"))[1:30]:
        await driver.command("XDEL", "topic:visits", entry[0])
    seen = []
    while held := await first.finish(*held, accept=True):
        seen += bodies(held)
    assert seen == [str(i) for i in range(31, 40)]
    await driver.check_empty("counter")


async def test_after_flushall_a_worker_is_fenced_and_begins_again(
    driver: ServerDriver, server_url: str
) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    (one,) = await worker.take()
    await driver.transport.delete_namespace()
    with pytest.raises(FencedError):
        await worker.finish(one)
    assert await driver.snapshot() == {}
    await driver.declare(topic("counter", "visits"))
    await worker.lane.join(["counter"])
    await driver.note("topic:visits", "a", "2")
    assert bodies(await worker.take()) == ["2"]


@pytest.fixture
async def full(driver: ServerDriver) -> AsyncIterator[None]:
    """The server may be made to refuse what needs memory."""
    command = driver.transport.admin.command
    await command("CONFIG", "SET", "maxmemory-policy", "noeviction")
    yield
    await command("CONFIG", "SET", "maxmemory", "0")


async def test_a_worker_whose_type_was_forgotten_begins_again(driver: ServerDriver) -> None:
    """The finding: without `types` every request was refused for ever, and `repair` took the groups away."""
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    await worker.take()
    await driver.command("DEL", "types")
    assert await worker.beat() == [b"FENCED"]
    await driver.declare(topic("counter", "visits"))
    again = await driver.worker("counter")
    assert bodies(await again.take()) == ["1"]
    await again.finish_all()
    await driver.check_empty("counter")


@pytest.mark.real_server("it has no maxmemory")
@pytest.mark.usefixtures("full")
async def test_a_full_server_refuses_to_publish_and_still_commits(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1", "2")
    one, two = await worker.take()
    await driver.transport.admin.command("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(OverloadedError):
        await driver.publish(posting("topic:visits", "a", "3"))
    with pytest.raises(OverloadedError):
        await driver.publish(
            posting("topic:visits", "a", "3", idempotency_id="x"), posting("topic:unseen", "a", "4")
        )
    out = (1, "topic:visits", 0, "o1", "Note", "b", "", b"", b"out")
    turn = await worker.turn(
        Done(one, Mark.COMMIT + Mark.MORE + Mark.STATE + Mark.OUTGOING, (1, b"s", *out)), count=5
    )
    assert bodies(turn.deliveries) == ["out"]
    assert (await worker.beat())[0] == b"OK"
    assert (await worker.lane.resync())[0].envelope.body == b"2"
    await worker.turn(Done(two, Mark.COMMIT, ()))
    await driver.transport.admin.command("CONFIG", "SET", "maxmemory", "0")
    assert await driver.publish(posting("topic:visits", "a", "3", idempotency_id="x")) == [True], (
        "it was not sent before"
    )
    assert bodies(await worker.take()) == ["3"]


@pytest.mark.real_server("it has no maxmemory")
@pytest.mark.usefixtures("full")
async def test_a_worker_of_a_full_server_may_join_and_leave(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    first = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    await first.take()
    await driver.transport.admin.command("CONFIG", "SET", "maxmemory", "1")
    await first.lane.leave()
    second = await driver.worker("counter")
    assert bodies(await second.take()) == ["1"]
    await second.finish_all()


async def test_what_is_taken_in_the_turn_that_mends_the_group_is_pending(driver: ServerDriver) -> None:
    """Else trimming would take it, and a worker that dies with it would take it along."""
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    held = await first.take()
    await driver.note("topic:visits", "a", "2")
    await second.take()
    await first.finish(*held, accept=False)
    await driver.transport.admin.command(
        "XGROUP", "DESTROY", driver.transport.keys.of("topic:visits"), "counter"
    )
    await driver.note("topic:visits", "b", "3")
    assert bodies(await second.take()) == ["2", "3"]
    assert await driver.pending("topic:visits", "counter") == 2
