from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from broker import BrokerSettings
from broker.errors import CommandError, ConnectionLostError, EncodeError
from broker.redis.endpoint import Endpoint
from broker.redis.heartbeat import BlockingWire, Heartbeat
from broker.redis.keys import Keys
from broker.redis.lane import Want, WorkerLane
from broker.redis.transport import Declared, RedisTransport
from tests.helpers.eventually import eventually
from tests.helpers.peers import Client, peer, silent
from tests.helpers.servers import ServerProcess

NAME = "callboard-heartbeat"


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess() as started:
        yield started


class Ward:
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

    def _pulse(self) -> tuple[str, int, int]:
        self.beats += 1
        if self.pulse_error is not None:
            raise self.pulse_error
        return self.lane.worker, 3, 2

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
async def ward(server: ServerProcess) -> AsyncIterator[Ward]:
    made = Ward(server.url)
    await made.begin()
    yield made
    await made.close()


async def test_it_extends_the_lease_and_shows_what_is_held(ward: Ward) -> None:
    await ward.beats_again()
    key = ward.transport.keys.of(f"worker:{ward.lane.worker}")
    assert await ward.transport.admin.command("HMGET", key, "held", "running") == [b"3", b"2"]


async def test_a_blocked_event_loop_does_not_cost_the_lease(ward: Ward, server: ServerProcess) -> None:
    wire = BlockingWire(Endpoint.parse(server.url), 5)
    workers = ward.transport.keys.of("workers")

    def lease() -> float:
        return float(wire.call(("ZSCORE", workers, ward.lane.worker)))

    end = lease() + 3 * 1000 * ward.transport.settings.lease
    while lease() < end:
        time.sleep(0.01)  # noqa: ASYNC251 - this is the handler that blocks the loop
    wire.close()
    other = ward.transport.lane()
    await other.join(["counter"])
    await ward.lane.turn((), [Want("counter", 1, False)], 0, True, True)
    assert ward.fenced == []
    other.close()


async def test_a_worker_that_is_not_known_is_told_with_every_beat(ward: Ward) -> None:
    await ward.beats_again()
    await ward.transport.admin.command("ZREM", ward.transport.keys.of("workers"), ward.lane.worker)
    await eventually(lambda: len(ward.fenced) >= 2)
    assert set(ward.fenced) == {ward.lane.worker}
    await ward.lane.join(["counter"])
    await ward.beats_again()


async def test_nothing_is_sent_before_the_worker_has_joined(server: ServerProcess) -> None:
    ward = Ward(server.url)
    ward.heartbeat.start()
    await eventually(lambda: ward.beats >= 3)
    assert ward.heartbeat._wire is None
    await ward.close()


async def test_it_reaps_those_that_stopped(ward: Ward) -> None:
    other = ward.transport.lane()
    await other.join(["counter"])
    workers = ward.transport.keys.of("workers")
    await ward.transport.admin.command("ZADD", workers, 1, other.worker)

    async def is_gone() -> bool:
        return await ward.transport.admin.command("ZSCORE", workers, other.worker) is None

    await eventually(is_gone)
    other.close()


async def test_it_connects_again_after_its_client_was_killed(
    ward: Ward, caplog: pytest.LogCaptureFixture
) -> None:
    async def number() -> bytes | None:
        for line in (await ward.transport.admin.command("CLIENT", "LIST")).splitlines():
            if f"name={NAME}".encode() in line:
                return bytes(line.split(b" ", 1)[0])
        return None

    first = await eventually(number)
    assert first is not None
    await ward.transport.admin.command("CLIENT", "KILL", "ID", first.removeprefix(b"id="))
    await ward.beats_again()
    assert caplog.text.count("heartbeat failed, trying again") == 1


async def test_it_goes_on_after_a_restart_and_complains_once(caplog: pytest.LogCaptureFixture) -> None:
    with ServerProcess() as server:
        ward = Ward(server.url)
        await ward.begin()
        await ward.beats_again()
        server.kill()
        beats = ward.beats
        await eventually(lambda: ward.beats > beats + 5)
        server.start()
        await eventually(lambda: ward.fenced, what="the new server does not know the worker")
        assert caplog.text.count("heartbeat failed, trying again") == 1
        await ward.close()


async def test_functions_are_loaded_again_after_a_flush(ward: Ward) -> None:
    await ward.beats_again()
    await ward.transport.admin.command("FUNCTION", "FLUSH")
    await ward.beats_again()


async def test_nothing_ends_the_thread(ward: Ward, caplog: pytest.LogCaptureFixture) -> None:
    await ward.beats_again()
    ward.pulse_error = ZeroDivisionError("a bug in the pulse")
    beats = ward.beats
    await eventually(lambda: ward.beats > beats + 3)
    ward.pulse_error = None
    await ward.beats_again()
    assert caplog.text.count("heartbeat failed, trying again") == 1
    assert "a bug in the pulse" in caplog.text


async def test_it_stops(ward: Ward) -> None:
    await ward.beats_again()
    await asyncio.to_thread(ward.heartbeat.stop)
    assert not [thread for thread in threading.enumerate() if thread.name == NAME]
    assert ward.heartbeat._wire is None
    ward.heartbeat.stop()


def test_stopping_one_that_never_began() -> None:
    Heartbeat(Endpoint.parse("redis://"), Keys("test"), BrokerSettings(), lambda: ("", 0, 0), print).stop()


async def test_a_server_that_hangs_is_given_up_while_there_is_time_for_another_beat() -> None:
    async with peer(silent) as hung:
        ward = Ward(hung.url, lease=0.6)
        ward.lane.worker = "here:1:1"
        ward.heartbeat.start()
        await eventually(lambda: hung.connections >= 3)
        await ward.close()


async def test_the_store_in_this_process_has_a_heartbeat_too() -> None:
    ward = Ward(f"memory://beat-{os.urandom(4).hex()}")
    await ward.begin()
    await ward.beats_again()
    await ward.transport.admin.command("ZREM", ward.transport.keys.of("workers"), ward.lane.worker)
    await eventually(lambda: ward.fenced)
    await ward.close()


# The connection of the thread


async def in_thread(url: str, *commands: tuple[Any, ...], timeout: float = 5.0) -> list[Any]:
    """Answers to these commands."""

    def talk() -> list[Any]:
        wire = BlockingWire(Endpoint.parse(url), timeout)
        with ExitStack() as stack:
            stack.callback(wire.close)
            return [wire.call(command) for command in commands]

    return await asyncio.to_thread(talk)


async def test_commands_are_answered(server: ServerProcess) -> None:
    answers = await in_thread(server.url, ("SET", "a", b"\xff"), ("GET", "a"), ("CLIENT", "GETNAME"))
    assert answers == [b"OK", b"\xff", NAME.encode()]


async def test_errors_are_the_brokers(server: ServerProcess) -> None:
    with pytest.raises(CommandError, match="unknown command"):
        await in_thread(server.url, ("NO_SUCH",))
    with pytest.raises(EncodeError):
        await in_thread(server.url, ("SET", "a", "half \ud800"))


def saying(data: bytes) -> Callable[[Client], Awaitable[None]]:
    async def talk(client: Client) -> None:
        await client.command()
        await client.say(data)

    return talk


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "closed the connection|reset"),
        (b"$100\r\nhalf", "closed the connection|reset"),
        (b"HTTP/1.1", "Protocol error"),
    ],
    ids=["cut", "cut in an answer", "no server"],
)
async def test_a_connection_that_breaks(data: bytes, reason: str) -> None:
    async with peer(saying(data)) as server:
        with pytest.raises(ConnectionLostError, match=reason):
            await in_thread(server.url, ("PING",))


async def test_no_answer_in_time() -> None:
    async with peer(silent) as server:
        with pytest.raises(ConnectionLostError, match="timed out"):
            await in_thread(server.url, ("PING",), timeout=0.05)


@pytest.mark.parametrize(
    "url", ["redis://a..b", "unix:///no/such.sock", "rediss://127.0.0.1:1?ssl_ca_certs=/no/ca.pem"]
)
async def test_nobody_is_there(url: str) -> None:
    with pytest.raises(ConnectionLostError):
        await in_thread(url)


async def test_a_login_that_is_refused_leaves_no_connection() -> None:
    async def talk(client: Client) -> None:
        await client.command()
        await client.say(b"-WRONGPASS no\r\n")
        assert await client.command() is None

    async with peer(talk, greets=False) as locked:
        with pytest.raises(CommandError, match="WRONGPASS"):
            await in_thread(locked.url.replace("redis://", "redis://:pw@"))
        await eventually(lambda: not locked.tasks)
