"""A server that counts too many entries as unread, as after a crash or a failover: what waits is what the stream holds."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.broker.redis.client.publisher import message_values
from tests.helpers.server_driver import DrivenWorker, ServerDriver, posting, topic

pytestmark = pytest.mark.real_server("it counts what is there")

STREAM, HANDLED, LOST = "topic:visits", 60, 40


async def _forget_reads(driver: ServerDriver) -> None:
    """The server knows where the group is, and less of how much it has read."""
    group = await _group(driver)
    words = (group["last-delivered-id"], "ENTRIESREAD", HANDLED - LOST)
    key = driver.transport.keys.of(STREAM)
    await driver.transport.admin.command("XGROUP", "SETID", key, "counter", *words)


async def _group(driver: ServerDriver) -> dict[str, Any]:
    (flat,) = await driver.transport.admin.command("XINFO", "GROUPS", driver.transport.keys.of(STREAM))
    return {name.decode(): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


async def _unread(driver: ServerDriver) -> tuple[int, bool]:
    """How many are unread, and whether the first of them is known."""
    ((_, _, _, groups),) = await driver.run("measure", "", STREAM)
    return groups[3], groups[4] != b""


async def _publish(driver: ServerDriver, count: int, *, max_backlog: int = 0) -> list[bytes]:
    """What a publisher is told about messages that were not taken."""
    values = message_values([posting(STREAM, "a", b"1") for _ in range(count)])
    name = f"p{max_backlog}-{await driver.command('XLEN', STREAM)}"
    answer = await driver.run("publish", name, 1, f"60000 100000 {max_backlog} 0", count, "", *values)
    return [status for status in answer[3::2] if status == b"full"]


async def _handle_all(driver: ServerDriver) -> DrivenWorker:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await _publish(driver, HANDLED)
    while got := await worker.take(HANDLED):
        await worker.finish(*got)
    await _forget_reads(driver)
    assert (await _group(driver))["lag"] == LOST, "otherwise there is nothing to see here"
    return worker


async def test_what_was_handled_is_not_unread(driver: ServerDriver) -> None:
    await _handle_all(driver)
    assert await _unread(driver) == (0, False)
    await _publish(driver, 7)
    assert await _unread(driver) == (7, True)


async def test_what_is_read_of_what_came_since_is_not_unread_either(driver: ServerDriver) -> None:
    worker = await _handle_all(driver)
    await _publish(driver, 7)
    assert await _unread(driver) == (7, True)
    await worker.finish(*await worker.take(3))
    left = (await _unread(driver))[0] + int((await _group(driver))["pending"])
    assert left == 4


async def test_there_is_room_for_as_much_as_may_wait(driver: ServerDriver) -> None:
    await _handle_all(driver)
    assert await _publish(driver, 5, max_backlog=10) == []
    assert len(await _publish(driver, 9, max_backlog=10)) == 4


async def test_a_beat_sets_the_count_right(driver: ServerDriver) -> None:
    worker = await _handle_all(driver)
    await worker.beat()
    assert (await _group(driver))["lag"] == 0
    await _publish(driver, 7)
    assert (await _group(driver))["lag"] == 7


async def test_where_it_is_right_it_is_believed(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await _publish(driver, HANDLED)
    await worker.finish(*await worker.take(20))
    before = await _group(driver)
    await worker.beat()
    assert await _group(driver) == before
    assert (await _unread(driver))[0] + int(before["pending"]) == HANDLED - 20
