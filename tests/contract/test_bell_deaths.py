"""What was given to an idle worker with its bell: whether it heard of it is not known when its lease ends."""

from __future__ import annotations

import asyncio

import pytest

from callboard.broker.mailbox import ConsumedType, Pull, Rung
from tests.helpers.eventually import eventually
from tests.helpers.server_driver import DrivenWorker, ServerDriver, bodies, topic

pytestmark = pytest.mark.real_server("a store in this process has no command that waits")
TAKE_ONE = Pull((ConsumedType("counter", False),), 1, 0, False, 1)


async def given_at_bell(driver: ServerDriver, worker: DrivenWorker, *messages: str) -> list[str]:
    """Publishes for a worker that waits at its bell; what came with it."""
    waiting = asyncio.create_task(worker.lane.turn_at_bell(["counter"], 10, TAKE_ONE))
    await eventually(lambda: _is_waiting(driver, waiting))
    if messages:
        await driver.note("topic:visits", "a", *messages)
    turn = (await waiting).turn
    assert turn is not None
    return bodies(turn.deliveries)


async def _is_waiting(driver: ServerDriver, waiting: asyncio.Task[Rung]) -> bool:
    """Whether it waits at the bell by now, or did: one that has rung already is not waited for."""
    info = await driver.transport.admin.command("INFO", "clients")
    return waiting.done() or b"blocked_clients:0" not in info


async def tries(driver: ServerDriver) -> list[list[str]]:
    """Attempts and deaths of what was tried."""
    lines = (await driver.mapping("tries:counter")).values()
    return [[line.split(" ")[0], line.split(" ")[2]] for line in lines]


async def test_who_may_have_stood_still_since_before_its_bell_has_begun_nothing(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), max_attempts=1)
    first, second = await driver.worker("counter"), await driver.worker("counter")
    assert await given_at_bell(driver, first, "1") == ["1"]
    await driver.expire(first)
    await second.beat()
    assert await tries(driver) == [["0", "1"]]
    assert await driver.letters("counter") == []
    # It is tried alone now, by a worker that is known to be there.
    assert await given_at_bell(driver, second) == []
    assert bodies(await second.take()) == ["1"]
    await second.finish_all()
    await driver.check_empty("counter")


async def test_who_has_heard_its_bell_dies_of_what_it_brought(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await given_at_bell(driver, first, "1")
    await first.beat()
    await driver.expire(first)
    await second.beat()
    assert [attempts for attempts, _ in await tries(driver)] == ["1"]


async def test_who_was_seen_to_die_dies_of_what_its_bell_brought(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    first = await driver.worker("counter")
    await given_at_bell(driver, first, "1")
    await driver.run("leave", "1", "1", first.name)
    assert [attempts for attempts, _ in await tries(driver)] == ["1"]
