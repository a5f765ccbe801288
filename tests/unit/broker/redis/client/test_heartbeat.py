from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from callboard.broker import BrokerSettings
from callboard.broker.mailbox import ConsumedType, Incarnation, Pull
from callboard.broker.redis.client.blocking import BlockingWire
from callboard.broker.redis.client.endpoint import Endpoint
from callboard.broker.redis.client.heartbeat import Heartbeat, Pulse
from callboard.broker.redis.client.lane import WorkerLane
from callboard.broker.redis.client.transport import Declared, RedisTransport
from callboard.broker.redis.keys import Keys
from tests.helpers.eventually import eventually
from tests.helpers.peers import peer, silent
from tests.helpers.servers import ServerProcess

NAME = "callboard-heartbeat"


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess() as started:
        yield started


class HeartbeatFixture:
    """A worker whose heart beats fast."""

    def __init__(self, url: str, **settings: Any) -> None:
        chosen = {"lease": 0.4, "beat_every": 0.02, **settings}
        self.transport = RedisTransport(
            url, BrokerSettings(namespace=f"beat-{os.urandom(4).hex()}", **chosen)
        )
        self.lane: WorkerLane = self.transport.lane()
        self.beats = 0
        self.fenced: list[str] = []
        self.pulse_error: Exception | None = None
        self.heartbeat: Heartbeat = self.transport.heartbeat(self._pulse, self.fenced.append)

    def _pulse(self) -> Pulse:
        self.beats += 1
        if self.pulse_error is not None:
            raise self.pulse_error
        return Pulse(*self.lane.incarnation, held=3, running=2)

    async def begin(self) -> None:
        await self.transport.declare({"counter": {}}, [Declared("counter", "topic", "visits")])
        await self.lane.join(["counter"])
        self.heartbeat.start()

    async def lease_ends(self) -> float:
        """Server ms."""
        score = await self.transport.admin.command(
            "ZSCORE", self.transport.keys.of("workers"), self.lane.worker
        )
        return float(score or 0)

    async def connections(self) -> int:
        """Of hearts, as the server lists them."""
        listed: bytes = await self.transport.admin.command("CLIENT", "LIST")
        return listed.count(b"name=callboard-heartbeat")

    async def is_disconnected(self) -> bool:
        return await self.connections() == 0

    async def beats_again(self) -> None:
        """Waits until the lease was extended."""
        before = await self.lease_ends()

        async def is_later() -> bool:
            return await self.lease_ends() > before

        await eventually(is_later)

    async def close(self) -> None:
        await asyncio.to_thread(self.heartbeat.stop)
        self.lane.close()
        await self.transport.close()


@pytest.fixture
async def fixture(server: ServerProcess) -> AsyncIterator[HeartbeatFixture]:
    made = HeartbeatFixture(server.url)
    await made.begin()
    yield made
    await made.close()


async def test_it_extends_the_lease_and_shows_what_is_held(fixture: HeartbeatFixture) -> None:
    await fixture.beats_again()
    key = fixture.transport.keys.of(f"worker:{fixture.lane.worker}")
    assert await fixture.transport.admin.command("HMGET", key, "held", "running") == [b"3", b"2"]


async def test_a_blocked_event_loop_does_not_cost_the_lease(
    fixture: HeartbeatFixture, server: ServerProcess
) -> None:
    wire = BlockingWire(Endpoint.parse(server.url), 5)
    workers = fixture.transport.keys.of("workers")

    def lease() -> float:
        return float(wire.call(("ZSCORE", workers, fixture.lane.worker)))

    end = lease() + 3 * 1000 * fixture.transport.settings.lease
    while lease() < end:
        time.sleep(0.01)  # noqa: ASYNC251 - this is the handler that blocks the loop
    wire.close()
    other = fixture.transport.lane()
    await other.join(["counter"])
    await fixture.lane.turn((), Pull([ConsumedType("counter")], 1, 0, True, 100))
    assert fixture.fenced == []
    other.close()


async def test_a_worker_that_is_not_known_is_told_with_every_beat(fixture: HeartbeatFixture) -> None:
    await fixture.beats_again()
    await fixture.transport.admin.command("ZREM", fixture.transport.keys.of("workers"), fixture.lane.worker)
    await eventually(lambda: len(fixture.fenced) >= 2)
    assert set(fixture.fenced) == {fixture.lane.worker}
    await fixture.lane.join(["counter"])
    await fixture.beats_again()


async def test_nothing_is_sent_before_the_worker_has_joined(server: ServerProcess) -> None:
    fixture = HeartbeatFixture(server.url)
    fixture.heartbeat.start()
    await eventually(lambda: fixture.beats >= 3)
    assert await fixture.is_disconnected()
    await fixture.close()


async def test_it_reaps_those_that_stopped(fixture: HeartbeatFixture) -> None:
    other = fixture.transport.lane()
    await other.join(["counter"])
    workers = fixture.transport.keys.of("workers")
    await fixture.transport.admin.command("ZADD", workers, 1, other.worker)

    async def is_gone() -> bool:
        return await fixture.transport.admin.command("ZSCORE", workers, other.worker) is None

    await eventually(is_gone)
    other.close()


async def test_it_connects_again_after_its_client_was_killed(
    fixture: HeartbeatFixture, caplog: pytest.LogCaptureFixture
) -> None:
    async def number() -> bytes | None:
        for line in (await fixture.transport.admin.command("CLIENT", "LIST")).splitlines():
            if f"name={NAME}".encode() in line:
                return bytes(line.split(b" ", 1)[0])
        return None

    first = await eventually(number)
    assert first is not None
    await fixture.transport.admin.command("CLIENT", "KILL", "ID", first.removeprefix(b"id="))
    await fixture.beats_again()
    assert caplog.text.count("heartbeat failed, trying again") == 1


async def test_it_goes_on_after_a_restart_and_complains_once(caplog: pytest.LogCaptureFixture) -> None:
    with ServerProcess() as server:
        fixture = HeartbeatFixture(server.url)
        await fixture.begin()
        await fixture.beats_again()
        server.kill()
        beats = fixture.beats
        await eventually(lambda: fixture.beats > beats + 5)
        server.start()
        await eventually(lambda: fixture.fenced, what="the new server does not know the worker")
        assert caplog.text.count("heartbeat failed, trying again") == 1
        await fixture.close()


async def test_functions_are_loaded_again_after_a_flush(fixture: HeartbeatFixture) -> None:
    await fixture.beats_again()
    await fixture.transport.admin.command("FUNCTION", "FLUSH")
    await fixture.beats_again()


async def test_nothing_ends_the_thread(fixture: HeartbeatFixture, caplog: pytest.LogCaptureFixture) -> None:
    await fixture.beats_again()
    fixture.pulse_error = ZeroDivisionError("a bug in the pulse")
    beats = fixture.beats
    await eventually(lambda: fixture.beats > beats + 3)
    fixture.pulse_error = None
    await fixture.beats_again()
    assert caplog.text.count("heartbeat failed, trying again") == 1
    assert "a bug in the pulse" in caplog.text


async def test_it_stops(fixture: HeartbeatFixture) -> None:
    await fixture.beats_again()
    assert await fixture.connections() == 1
    await asyncio.to_thread(fixture.heartbeat.stop)
    assert not [thread for thread in threading.enumerate() if thread.name == NAME]
    await eventually(fixture.is_disconnected)
    fixture.heartbeat.stop()


def test_stopping_one_that_never_began() -> None:
    Heartbeat(
        Endpoint.parse("redis://"), Keys("test"), BrokerSettings(), lambda: Pulse("", 0, 0, 0), print
    ).stop()
    assert NAME not in {thread.name for thread in threading.enumerate()}


async def test_a_server_that_hangs_is_given_up_while_there_is_time_for_another_beat() -> None:
    async with peer(silent) as hung:
        fixture = HeartbeatFixture(hung.url, lease=0.6)
        fixture.lane.incarnation = Incarnation("here:1:1")
        fixture.heartbeat.start()
        await eventually(lambda: hung.connections >= 3)
        await fixture.close()


async def test_the_store_in_this_process_has_a_heartbeat_too() -> None:
    fixture = HeartbeatFixture(f"memory://beat-{os.urandom(4).hex()}")
    await fixture.begin()
    await fixture.beats_again()
    await fixture.transport.admin.command("ZREM", fixture.transport.keys.of("workers"), fixture.lane.worker)
    await eventually(lambda: fixture.fenced)
    await fixture.close()
