"""No call keeps the server busy for long, however much there is: what is too much for one call goes on in others."""

from __future__ import annotations

import pytest

from callboard.broker.redis.client.transport import Declared
from callboard.broker.redis.operations.inspect import overview
from tests.helpers.server_driver import DrivenWorker, ServerDriver, bodies, posting, topic

pytestmark = pytest.mark.real_server("it takes a minute for what is large here")

RETAIN = 100


async def _topics(driver: ServerDriver, first: int, last: int, said: str = "") -> None:
    """One message in each of these topics."""
    for start in range(first, last, 500):
        numbers = range(start, min(start + 500, last))
        await driver.publish(*(posting(f"topic:t-{i}", "k", f"{said}{i}") for i in numbers))


async def _handle_all(worker: DrivenWorker) -> list[str]:
    """What the worker gets until nothing is left, in its order."""
    seen: list[str] = []
    quiet = 0
    while quiet < 8:  # a turn that only read ahead brings nothing
        got = (await worker.turn(count=400, scan=False)).deliveries
        seen += bodies(got)
        await worker.finish(*got)
        quiet = 0 if got else quiet + 1
    return seen


async def _beats(worker: DrivenWorker, most: int = 300) -> None:
    """Beats until there is nothing more to do soon."""
    for _ in range(most):
        if not (await worker.beat(retain=RETAIN))[3]:
            return
    raise AssertionError(f"there is more to do after {most} beats")


async def test_calls_do_not_get_longer_with_more_topics(driver: ServerDriver) -> None:
    await driver.declare(Declared("wide", "prefix", "t-"))
    worker = await driver.worker("wide")

    async def measured() -> dict[str, int]:
        other = await driver.worker("wide")
        return {
            "beat": await driver.commands(worker.beat),
            "turn": await driver.commands(lambda: worker.turn(count=10, scan=True)),
            "idle": await driver.commands(lambda: driver.run("idle", "")),
            "census": await driver.commands(lambda: driver.run("census")),
            "leave": await driver.commands(other.lane.leave),
        }

    await _topics(driver, 0, 2500)
    await _handle_all(worker)
    assert {name: count for name, count in (await measured()).items() if count > 1800} == {}


async def test_a_turn_reads_many_topics_in_parts_and_keeps_the_order(driver: ServerDriver) -> None:
    """All messages are for one agent: whatever topic they came by, they are handled as they were published."""
    await driver.declare(Declared("wide", "prefix", "t-"))
    worker = await driver.worker("wide")
    await _topics(driver, 0, 700)
    for again in range(3):
        await driver.publish(*(posting(f"topic:t-{i}", "k", f"{again} {i}") for i in reversed(range(500))))
    wanted = [str(i) for i in range(700)]
    wanted += [f"{again} {i}" for again in range(3) for i in reversed(range(500))]
    assert await _handle_all(worker) == wanted
    await driver.check_empty("wide")


async def test_topics_that_a_turn_does_not_read_hold_back_what_is_newer(driver: ServerDriver) -> None:
    await driver.declare(Declared("wide", "prefix", "t-"))
    worker = await driver.worker("wide")
    for again in range(2):
        for first in range(0, 300, 20):  # few at once, so that they have several times
            await _topics(driver, first, first + 20, f"{again} ")
    assert await _handle_all(worker) == [f"{again} {i}" for again in range(2) for i in range(300)]


async def test_many_topics_with_much_of_one_millisecond_are_all_read(driver: ServerDriver) -> None:
    """One commit may send thousands of messages to more topics than a turn reads: the number of an id says their order."""
    await driver.declare(Declared("wide", "prefix", "t-"))
    worker = await driver.worker("wide")
    await driver.command("SET", "clock", "9000000000000-0")  # time stands still
    for again in range(8):
        await driver.publish(*(posting(f"topic:t-{i}", "k", f"{again} {i}") for i in reversed(range(300))))
    assert await _handle_all(worker) == [f"{again} {i}" for again in range(8) for i in reversed(range(300))]
    await driver.check_empty("wide")


async def test_topics_that_were_read_ahead_make_room_when_a_scan_names_all_of_them(
    driver: ServerDriver,
) -> None:
    await driver.declare(Declared("wide", "prefix", "t-"))
    worker = await driver.worker("wide")
    for again in range(3):
        await driver.publish(*(posting(f"topic:t-{i}", "k", f"{again} {i}") for i in range(220)))
    wanted = [f"{again} {i}" for again in range(3) for i in range(220)]
    seen: list[str] = []
    for number in range(600):
        if len(seen) == len(wanted):
            break
        got = (await worker.turn(count=5, scan=number % 3 == 0)).deliveries
        seen += bodies(got)
        await worker.finish(*got)
    assert seen == wanted


async def test_many_topics_are_read_although_every_turn_looks_at_all_of_them(driver: ServerDriver) -> None:
    await driver.declare(Declared("wide", "prefix", "t-"))
    worker = await driver.worker("wide")
    await _topics(driver, 0, 700)
    await _handle_all(worker)
    for again in range(2):
        await driver.publish(*(posting(f"topic:t-{i}", "k", f"{again} {i}") for i in range(300)))
    seen: list[str] = []
    for _ in range(50):
        got = (await worker.turn(count=40, scan=True)).deliveries
        seen += bodies(got)
        await worker.finish(*got)
    assert seen == [f"{again} {i}" for again in range(2) for i in range(300)]


async def test_what_was_added_by_hand_is_found_in_turn(driver: ServerDriver) -> None:
    await driver.declare(Declared("wide", "prefix", "t-"))
    worker = await driver.worker("wide")
    await _topics(driver, 0, 700)
    await _handle_all(worker)
    await driver.add_by_hand("topic:t-345", "type", "Note", "key", "k", "body", "by hand")
    found: list[str] = []
    for _ in range(20):
        found += bodies(await worker.take(10))
    assert found == ["by hand"]


async def test_an_agent_that_is_stuck_does_not_make_its_stream_grow(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker, stuck = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "stuck", "held")
    await stuck.take(1)
    for _ in range(3):
        for start in range(0, 4000, 500):
            await driver.publish(*(posting("topic:visits", f"k{start + i}") for i in range(500)))
        await _handle_all(worker)
        await _beats(worker)
        assert await driver.command("XLEN", "topic:visits") <= RETAIN + 1100
    assert bodies(await stuck.finish(*stuck.held, accept=True)) == []
    assert (await driver.entries("topic:visits"))[0]["body"] == b"held"


async def test_the_newest_handled_entries_stay_when_an_old_one_is_stuck(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker, stuck = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "stuck", "held")
    await stuck.take(1)
    for start in range(0, 3000, 500):
        await driver.publish(*(posting("topic:visits", f"k{i}", str(i)) for i in range(start, start + 500)))
    await _handle_all(worker)
    await _beats(worker)
    kept = [entry["body"].decode() for entry in await driver.entries("topic:visits")]
    assert kept[-RETAIN:] == [str(i) for i in range(3000 - RETAIN, 3000)]


async def _park(driver: ServerDriver, *keys: str, each: int) -> tuple[DrivenWorker, DrivenWorker]:
    """Two workers: one holds an entry of each agent, the other has parked `each` of them behind it."""
    holder, parker = await driver.worker("counter"), await driver.worker("counter")
    for key in keys:
        await driver.note("topic:visits", key, f"{key} 0")
    await holder.take(len(keys))
    for start in range(1, each + 1, 500):
        numbers = range(start, min(start + 500, each + 1))
        await driver.publish(*(posting("topic:visits", key, f"{key} {i}") for i in numbers for key in keys))
        await parker.take_all(500 * len(keys))
    return holder, parker


async def test_the_consumer_of_a_worker_with_much_pending_goes_in_the_end(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    holder, parker = await _park(driver, "a", each=4500)
    assert await driver.pending("topic:visits", "counter") == 4501
    await parker.lane.leave()
    await _beats(holder)
    name = driver.transport.keys.of("topic:visits")
    consumers = await driver.transport.admin.command("XINFO", "CONSUMERS", name, "counter")
    assert {flat[1].decode() for flat in consumers} == {holder.name, "nobody"}
    assert await driver.pending("topic:visits", "counter") == 4501
    assert await driver.command("EXISTS", "chores") == 0


async def test_a_group_that_is_made_again_adopts_much_in_parts(driver: ServerDriver) -> None:
    """Meanwhile nothing is trimmed; what a worker takes or gives back in between is pending, too."""
    await driver.declare(topic("counter", "visits"), topic("audit", "visits"))
    holder, parker = await _park(driver, "a", "b", each=2300)
    audit = await driver.worker("audit")
    await _handle_all(audit)
    name = driver.transport.keys.of("topic:visits")
    await driver.transport.admin.command("XGROUP", "DESTROY", name, "counter")
    await parker.turn(count=10)
    await parker.beat(retain=0)
    got = await holder.finish(next(one for one in holder.held if one.raw_key == b"a"), accept=True)
    assert bodies(got)[0] == "a 1"
    for _ in range(40):
        await parker.beat(retain=0)
    assert await driver.command("EXISTS", "chores") == 0
    assert await driver.pending("topic:visits", "counter") == 4600 + 2 - 1
    await holder.lane.leave()
    seen: list[str] = []
    while got := (await parker.turn(count=400, accept=True)).deliveries:
        seen += bodies(got)
        await parker.finish(*got)
    for key in ("a", "b"):
        mine = [body for body in seen if body.startswith(key)]
        assert mine == [f"{key} {i}" for i in range(1 if key == "a" else 0, 2301)]
    assert "vanished" not in str(await driver.entries("events"))


async def test_many_agents_are_resumed_in_parts(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    holder, other = await driver.worker("counter"), await driver.worker("counter")
    for start in range(0, 2500, 500):
        await driver.publish(*(posting("topic:visits", f"k{i}", "1") for i in range(start, start + 500)))
        await holder.take(500)
    await driver.run("control", "pause", "topic", "visits", "")
    await holder.lane.leave()
    while await driver.command("LLEN", "ready:counter"):
        await other.take(500)
    assert await driver.command("HLEN", "shelved:counter") == 2500
    await driver.run("control", "resume", "topic", "visits", "")
    assert len(await _handle_all(other)) == 2500
    assert await driver.command("HLEN", "shelved:counter") == 0
    await driver.check_empty("counter")


async def test_a_type_that_subscribes_to_many_topics_gets_what_comes_from_then_on(
    driver: ServerDriver,
) -> None:
    await driver.declare(Declared("wide", "prefix", "t-"))
    await _topics(driver, 0, 1200)
    late = ("1", "1", "late", "{}", "1", "late", "prefix", "t-", "", "")
    assert (await driver.run("declare", *late))[0] == b"MORE"
    await _topics(driver, 0, 1200, "after ")
    while (await driver.run("declare", *late))[0] == b"MORE":
        pass
    worker = await driver.worker("late")
    assert await _handle_all(worker) == [f"after {i}" for i in range(1200)]
    assert await driver.command("SCARD", "streams:late") == 1201


async def test_how_a_large_namespace_stands(driver: ServerDriver) -> None:
    await driver.declare(Declared("wide", "prefix", "t-"), topic("counter", "visits"))
    await _topics(driver, 0, 1100)
    holder = await driver.worker("counter")
    for _ in range(2):
        for start in range(0, 2500, 500):
            await driver.publish(*(posting("topic:visits", f"k{i}") for i in range(start, start + 500)))
    await holder.take_all(2500)
    await (await driver.worker("counter")).take_all(2500)
    view = await overview(driver.transport)
    counter, wide = view.types
    assert (counter.held, counter.parked, counter.waiting) == (2500, 2500, 5000)
    assert (wide.waiting, len(wide.streams), len(view.topics)) == (1100, 1101, 1101)
    assert (await driver.transport.idle())[0] > 0
    worker = await driver.worker("wide")
    await _handle_all(worker)
    assert (await driver.transport.idle())[:2] == (0, 2500)


async def test_one_turn_gives_a_bounded_number_of_entries(driver: ServerDriver) -> None:
    """However much a worker asks for, of however many types; and it is told that there is more."""
    await driver.declare(topic("counter", "visits"), topic("audit", "visits"))
    for start in range(0, 1500, 500):
        await driver.publish(*(posting("topic:visits", f"k{i}", "1") for i in range(start, start + 500)))
    worker = await driver.worker("counter", "audit")
    turns: list[tuple[int, bool]] = []
    while len(worker.held) < 3000:
        turn = await worker.turn(count=3000)
        turns.append((len(turn.deliveries), turn.more))
    assert max(given for given, _ in turns) == 512 + 16
    assert all(more for _, more in turns[:-1]), turns
    assert (await worker.turn(count=3000)).deliveries == []


async def test_agents_that_a_turn_has_no_room_for_come_with_the_next(driver: ServerDriver) -> None:
    await driver.declare(topic("audit", "books"), topic("counter", "visits"))
    leaving, worker = await driver.worker("counter"), await driver.worker("audit", "counter")
    await driver.publish(*(posting("topic:visits", f"k{i}", "1") for i in range(60)))
    await leaving.take(60)
    await leaving.lane.leave()
    await driver.publish(*(posting("topic:books", f"k{i}", "1") for i in range(510)))
    turn = await worker.turn(count=512)
    assert (len(turn.deliveries), turn.more) == (510 + 16, True)
    assert len((await worker.turn(count=512)).deliveries) == 60 - 16
