"""The server is killed and started again between two portions of what is done in portions: nothing is left out.

A new process has what a scan goes through in another order, so that the cursors of the old one lead past some of it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from callboard.broker import BrokerSettings
from callboard.broker.errors import ConnectionLostError
from callboard.broker.redis.client.transport import Declared
from tests.helpers.server_driver import LEASE, DrivenWorker, ServerDriver, posting, topic
from tests.helpers.servers import ServerProcess

TOPICS, AGENTS = 1000, 1500


@pytest.fixture
async def driver(own_server: ServerProcess) -> AsyncIterator[ServerDriver]:
    made = ServerDriver(
        own_server.url, BrokerSettings(namespace=f"portions-{os.urandom(4).hex()}", lease=LEASE)
    )
    yield made
    await made.close()


async def _restart(server: ServerProcess, driver: ServerDriver) -> None:
    """Kills the server and starts it again; a call that finds its connection broken has the next one make another."""
    server.kill()
    server.start()
    with pytest.raises(ConnectionLostError):
        await driver.command("EXISTS", "chores")


async def _beats(worker: DrivenWorker) -> None:
    for _ in range(200):
        if not (await worker.beat())[3]:
            return
    raise AssertionError("it has no end")


async def _declare_topics(driver: ServerDriver) -> None:
    for i in range(0, TOPICS, 200):
        await driver.declare(*(topic("counter", f"t-{i + j}") for j in range(200)))


async def _take_behind(worker: DrivenWorker) -> None:
    """Takes turns until all that there is waits behind agents of another worker, or of nobody."""
    while (turn := await worker.turn(count=500)).more or turn.deliveries:
        await worker.finish_all()


async def test_a_prefix_brings_all_its_topics(own_server: ServerProcess, driver: ServerDriver) -> None:
    await _declare_topics(driver)
    answer = await driver.run("declare", 1, 1, "late", "{}", 1, "late", "prefix", "t-", "", "")
    assert answer[0] == b"MORE"
    await _restart(own_server, driver)
    await _beats(await driver.worker("counter"))
    assert await driver.command("SCARD", "streams:late") == TOPICS + 1, "and its inbox"


async def test_a_prefix_that_is_declared_again_brings_all_its_topics(
    own_server: ServerProcess, driver: ServerDriver
) -> None:
    """As a client does that was told that topics are left: the answer's successor comes from another server process."""
    await _declare_topics(driver)
    await driver.run("declare", 1, 1, "late", "{}", 1, "late", "prefix", "t-", "", "")
    await _restart(own_server, driver)
    await driver.transport.declare({"late": {}}, [Declared("late", "prefix", "t-")])
    assert await driver.command("SCARD", "streams:late") == TOPICS + 1, "and its inbox"


async def test_all_agents_go_on_that_a_pause_had_put_aside(
    own_server: ServerProcess, driver: ServerDriver
) -> None:
    await driver.declare(topic("counter", "visits"))
    await driver.run("control", "pause", "topic", "visits", "me")
    for i in range(0, AGENTS, 500):
        await driver.publish(*(posting("topic:visits", f"k{i + j}") for j in range(500)))
    await driver.note("inbox:counter", "other", "new")
    worker = await driver.worker("counter")
    await _take_behind(worker)
    assert await driver.command("HLEN", "shelved:counter") == AGENTS
    await driver.run("control", "resume", "topic", "visits", "me")
    assert await driver.command("HLEN", "shelved:counter") >= 100, "they would all be moved in one call"
    await _restart(own_server, driver)
    await _take_behind(await driver.worker("counter"))
    assert await driver.command("HLEN", "shelved:counter") == 0
    await driver.check_empty("counter")


async def test_all_consumers_of_a_worker_that_left_go(
    own_server: ServerProcess, driver: ServerDriver
) -> None:
    await _declare_topics(driver)
    leaver, stays = await driver.worker("counter"), await driver.worker("counter")
    await driver.publish(*(posting(f"topic:t-{i}", f"k{i}") for i in range(TOPICS)))
    while len(leaver.held) < TOPICS:
        await leaver.turn(count=500, scan=False)
    await leaver.lane.leave()
    await stays.beat()
    assert await driver.command("EXISTS", "chores") == 1, "they would all go in one call"
    await _restart(own_server, driver)
    await _beats(await driver.worker("counter"))
    assert await _consumed(driver, leaver.name) == []


async def _consumed(driver: ServerDriver, name: str) -> list[str]:
    """The topics of which a worker is a consumer."""
    found = []
    for i in range(TOPICS):
        consumers = await driver.transport.admin.command(
            "XINFO", "CONSUMERS", driver.transport.keys.of(f"topic:t-{i}"), "counter"
        )
        found += [f"t-{i}" for consumer in consumers if consumer[1].decode() == name]
    return found


async def test_a_group_that_is_made_again_adopts_all_that_is_parked(
    own_server: ServerProcess, driver: ServerDriver
) -> None:
    await driver.declare(topic("counter", "visits"))
    holder, parker = await driver.worker("counter"), await driver.worker("counter")
    for _ in range(2):
        await driver.publish(*(posting("topic:visits", f"k{i}") for i in range(TOPICS)))
        await holder.take_all(TOPICS - len(holder.held))
    await _take_behind(parker)
    stream = driver.transport.keys.of("topic:visits")
    await driver.transport.admin.command("XGROUP", "DESTROY", stream, "counter")
    await driver.note("topic:visits", "other", "new")
    await parker.take()
    while not await _scans(driver):
        await parker.beat()
    await _restart(own_server, driver)
    await _beats(await driver.worker("counter"))
    assert await driver.pending("topic:visits", "counter") == 2 * TOPICS + 1


async def _scans(driver: ServerDriver) -> bool:
    """Whether a group is in the middle of what is parked."""
    place = (await driver.mapping("chores"))["adopt counter topic:visits"]
    return place.startswith("parked ") and place != "parked 0"
