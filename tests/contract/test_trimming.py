"""Handled entries go, up to a number that stays to be looked at; what somebody still needs never goes."""

from __future__ import annotations

import pytest

from callboard.broker.redis.client.transport import Declared
from callboard.broker.redis.library import Mark
from tests.helpers.eventually import eventually
from tests.helpers.server_driver import DrivenWorker, ServerDriver, bodies, posting, topic

RETAIN = 200


async def _fill(driver: ServerDriver, count: int, key: str = "k") -> None:
    for start in range(0, count, 500):
        size = min(500, count - start)
        await driver.publish(
            *(posting("topic:visits", f"{key}{start + i}", str(start + i)) for i in range(size))
        )


async def _drain(worker: DrivenWorker, *types: str) -> int:
    handled = 0
    while got := await worker.take(500, *types):
        await worker.finish(*got)
        handled += len(got)
    return handled


async def _beat_often(worker: DrivenWorker, times: int = 30) -> None:
    for _ in range(times):
        await worker.beat(retain=RETAIN)


async def test_handled_entries_are_kept_up_to_the_limit(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await _fill(driver, 3000)
    assert await _drain(worker) == 3000
    await _beat_often(worker)
    assert RETAIN <= await driver.command("XLEN", "topic:visits") <= RETAIN + 300


async def test_few_entries_all_stay(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await _fill(driver, RETAIN)
    await _drain(worker)
    await _beat_often(worker)
    assert await driver.command("XLEN", "topic:visits") == RETAIN


async def test_what_a_slower_group_has_not_read_stays(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), topic("audit", "visits"))
    worker = await driver.worker("counter")
    await _fill(driver, 2000)
    await _drain(worker)
    await _beat_often(worker)
    assert await driver.command("XLEN", "topic:visits") == 2000
    late = await driver.worker("audit")
    assert await _drain(late) == 2000


async def test_what_is_held_parked_or_backing_off_stays_and_the_rest_goes(driver: ServerDriver) -> None:
    """One old entry that is still being handled must not keep everything after it."""
    from tests.helpers.commits import Done

    await driver.declare(topic("counter", "visits"))
    slow, worker = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "slow", "held")
    await slow.take(1)
    await driver.note("topic:visits", "slow", "parked")
    await driver.note("topic:visits", "again", "backing off")
    (one,) = await worker.take(5)
    await worker.turn(Done(one, Mark.RETRY, (3_600_000, 1, "", "no")))
    await _fill(driver, 6000)
    seen = []
    while got := await worker.take(500):
        seen += bodies(got)
        await worker.finish(*got)
    assert len(seen) == 6000
    await _beat_often(worker, 60)
    assert await driver.command("XLEN", "topic:visits") <= 2 * RETAIN + 2200
    assert bodies(await slow.finish(*slow.held, accept=True)) == ["parked"]
    entries = {entry["body"] for entry in await driver.entries("topic:visits")}
    assert {b"parked", b"backing off"} <= entries
    await driver.command("ZADD", "timers", 1, "k|counter|again")
    assert bodies(await worker.take(5)) == ["backing off"]


async def test_trimming_goes_on_while_entries_come_and_go(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    longest = 0
    for _ in range(20):
        await _fill(driver, 500)
        assert await _drain(worker) == 500
        await worker.beat(retain=RETAIN)
        longest = max(longest, int(await driver.command("XLEN", "topic:visits")))
    assert longest <= 1500


async def test_entries_whose_group_came_back_are_not_trimmed_away(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    first, worker = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "held")
    await first.take(1)
    await driver.note("topic:visits", "a", "parked")
    await worker.take(1)
    await driver.transport.admin.command(
        "XGROUP", "DESTROY", driver.transport.keys.of("topic:visits"), "counter"
    )
    await _fill(driver, 1000)
    assert await _drain(worker) == 1000
    await _beat_often(worker)
    assert bodies(await first.finish(*first.held, accept=True)) == ["parked"]


@pytest.mark.real_server("it has no maxmemory")
async def test_when_the_memory_is_full_nothing_is_kept_to_be_looked_at(driver: ServerDriver) -> None:
    """Else handled entries, which nobody needs, could keep publishers out for ever."""
    await driver.declare(topic("counter", "visits"), topic("audit", "visits"))
    worker = await driver.worker("counter")
    await driver.publish(*(posting("topic:visits", f"k{i}", b"x" * 50_000) for i in range(40)))
    await _drain(worker)
    late = await driver.worker("audit")
    await late.take(1)
    await _limit_memory(driver, 1_000_000)
    try:
        await _beat_often(worker)
        assert await driver.command("XLEN", "topic:visits") == 40, "somebody still needs them"
        await late.finish_all()
        await _drain(late)
        await _beat_often(worker)
        assert await driver.command("XLEN", "topic:visits") <= 1
        await driver.note("topic:visits", "k", "there is room again")
    finally:
        await driver.transport.admin.command("CONFIG", "SET", "maxmemory", 0)


async def _limit_memory(driver: ServerDriver, too_much: int) -> None:
    """So that the server uses so many bytes more than it may."""
    info: bytes = await driver.transport.admin.command("INFO", "memory")
    used = next(line for line in info.decode().splitlines() if line.startswith("used_memory:"))
    await driver.transport.admin.command("CONFIG", "SET", "maxmemory", int(used.partition(":")[2]) - too_much)


async def _forget(worker: DrivenWorker, *, after: int = 1) -> None:
    """Beats that forget what is older than so many ms."""
    for _ in range(3):
        told = worker.lane.incarnation.acknowledged
        await worker.driver.run("beat", worker.name, 3_600_000, RETAIN, 0, 0, 0, told, after)


async def _topics(driver: ServerDriver) -> set[str]:
    return set(await driver.mapping("topics"))


async def test_a_topic_that_a_prefix_made_goes_when_it_is_over_and_comes_again(driver: ServerDriver) -> None:
    await driver.declare(Declared("wide", "prefix", "t-"), topic("named", "t-named"), topic("wide", "other"))
    worker = await driver.worker("wide")
    for name in ("t-over", "t-held", "t-named", "other"):
        await driver.note(f"topic:{name}", "k", name)
    (held,) = [one for one in await worker.take() if one.stream == b"topic:t-held"]
    await worker.finish(*[one for one in worker.held if one is not held])
    await driver.note("topic:t-unread", "k2", "unread")

    async def gone() -> bool:
        await _forget(worker)
        return "t-over" not in await _topics(driver)

    await eventually(gone)
    assert await _topics(driver) == {"t-held", "t-named", "t-unread", "other"}
    assert await driver.command("EXISTS", "topic:t-over") == 0
    assert "topic:t-over" not in await driver.mapping("cursor:wide")
    await worker.finish(held)
    assert bodies(await worker.take()) == ["unread"]
    await driver.note("topic:t-over", "k", "again")
    assert bodies(await worker.take()) == ["again"]
    await worker.finish_all()
    await driver.check_empty("wide")


async def test_no_topic_goes_unless_it_is_old(driver: ServerDriver) -> None:
    await driver.declare(Declared("wide", "prefix", "t-"))
    worker = await driver.worker("wide")
    await driver.note("topic:t-1", "k", "1")
    await worker.finish(*await worker.take())
    await _forget(worker, after=3_600_000)
    await _forget(worker, after=0)
    assert await _topics(driver) == {"t-1"}
