"""A worker that lost its lease writes nothing; an old call that arrives late is refused."""

from __future__ import annotations

import pytest

from callboard.broker.errors import ConnectionLostError, FencedError
from callboard.broker.redis.library import Mark
from tests.helpers.commits import Done
from tests.helpers.server_driver import ServerDriver, bodies, topic

EVERYTHING = Mark.COMMIT + Mark.STATE + Mark.REPLY + Mark.OUTGOING


def _extras() -> tuple[object, ...]:
    state = (1, b"state")
    reply = ("process", "", "id", "Note", "", b"", b"reply")
    outgoing = (1, "topic:visits", 0, "id", "Note", "a", "", b"", b"out")
    return (*state, *reply, *outgoing)


async def test_nothing_of_a_reaped_workers_turn_is_written(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    paused, other = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1", "2")
    one, _ = await paused.take()
    await driver.expire(paused)
    await other.beat()
    before = await driver.snapshot()
    with pytest.raises(FencedError) as caught:
        await paused.turn(Done(one, EVERYTHING, _extras()), count=10)  # type: ignore[arg-type]
    assert paused.name in str(caught.value)
    assert await driver.snapshot() == before
    assert bodies(await other.take()) == ["1", "2"]


async def test_a_lease_that_ended_holds_until_somebody_else_takes_over(driver: ServerDriver) -> None:
    """The fence is the reaping, not the clock: a late beat with nobody else around is as good as one in time."""
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    held = await worker.take()
    await driver.expire(worker)
    await worker.finish(*held)
    assert (await worker.beat())[0] == b"OK"
    await driver.check_empty("counter")


async def test_beat_and_resync_of_a_fenced_worker_say_so(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.run("leave", "1", "1", worker.name)
    before = await driver.snapshot()
    assert await worker.beat() == [b"FENCED"]
    with pytest.raises(FencedError):
        await worker.lane.resync()
    assert await driver.snapshot() == before


async def test_names_of_incarnations_only_rise(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    numbers = []
    for process in (
        "here:1:a",
        "here:2:b",
        "here:1:a",
    ):  # none of which knows of a number that another one had
        name, _ = await driver.run("join", process, 5000, "counter", "here", 1, "", 0)
        numbers.append(int(name.rsplit(b":", 1)[1]))
    assert numbers == sorted(set(numbers))


async def test_a_copy_of_an_old_turn_is_refused(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    await worker.take()
    before = await driver.snapshot()
    for number in (0, 1):
        answer = await driver.run("turn", worker.name, number, 0, "1000 1000 counter 0 -", 0, "1", 0, 9, 0)
        assert answer == [b"STALE"]
    assert await driver.snapshot() == before


async def test_resync_tells_what_is_held_in_order_and_shuts_out_older_turns(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), topic("counter", "orders"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    await driver.note("topic:orders", "a", "2")
    await driver.note("topic:visits", "a", "3")
    first, *_ = await worker.take()
    await worker.turn(Done(first, Mark.COMMIT + Mark.MORE, ()))
    worker.lane._calls += 1  # a turn that is still under way
    held = await worker.lane.resync()
    assert bodies(held) == ["2", "3"]
    assert {one.raw_key for one in held} == {b"a"}
    worker.lane._calls -= 2
    with pytest.raises(ConnectionLostError):
        await worker.take()


async def test_a_turn_that_was_carried_out_and_not_answered_is_found_by_resync(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1", "2")
    one, _two = await worker.take(1), await worker.take(1)
    await driver.run(
        *("turn", worker.name, 3, 2, "1000 1000", 0, "", 0, 0, 1, "counter", "topic:visits", 1),
        *(Mark.COMMIT + Mark.MORE, one[0].entry, "a"),
    )
    worker.lane._calls = 3
    assert bodies(await worker.lane.resync()) == ["2"]
