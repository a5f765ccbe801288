"""The servers of a bank: a primary, a replica that may lag behind, and one address for whichever is the primary."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import redis.asyncio as redis
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff

from tests.helpers.eventually import eventually
from tests.helpers.servers import Kind, ServerProcess

from .. import clock
from ..proxy import Proxy

DOWN = 0.3  # seconds
FOLDER = "appendonlydir"  # of the append-only file
COPIES = 100  # of it, until one is whole
IN_SYNC_WITHIN = 30.0  # seconds
READ_WITHIN = 0.3  # seconds, for answers that wait in the buffers of sockets
RETRY_EVERY, RETRIES = 0.05, 400


class Vault:
    """Primary and replica.

    Args:
        kind: which server.
        sync: `appendfsync` of both.

    Attributes:
        lost: when data were lost: from when on they may be, and until when, by clock.py.
    """

    def __init__(self, kind: Kind, sync: str) -> None:
        options = ("--appendonly", "yes", "--appendfsync", sync, "--repl-diskless-sync-delay", "0")
        self._servers = [ServerProcess(kind, "tcp", options=options) for _ in range(2)]
        self._primary, self._replica = self._servers
        self._address = Proxy(self._primary.port)
        self._between = Proxy(self._primary.port)
        self.lost: list[tuple[float, float]] = []

    async def open(self) -> None:
        """Starts both; the replica is in step when this returns."""
        self._primary.start()
        await self._address.start()
        await self._between.start()
        self.client: Any = redis.Redis.from_url(
            self.url,
            retry=Retry(ConstantBackoff(RETRY_EVERY), RETRIES),
            retry_on_error=[
                exceptions.ConnectionError,
                exceptions.TimeoutError,
                exceptions.BusyLoadingError,
                exceptions.ReadOnlyError,
            ],
        )
        self._replica.start()
        await self._follow()

    @property
    def url(self) -> str:
        """Of whichever server is the primary."""
        return self._address.url

    async def kill(self) -> None:
        """Kill -9 of the primary, which comes back with its file."""
        self._primary.kill()
        await asyncio.sleep(DOWN)
        self._primary.start()
        await self._in_step()

    async def lose_tail(self, seconds: float) -> None:
        """Kill -9 of the primary, which comes back with its file as it was so many seconds ago."""
        began = clock.now()
        before = await asyncio.to_thread(self._copy)
        await asyncio.sleep(seconds)
        self._primary.kill()
        shutil.rmtree(self._primary.folder / FOLDER)
        before.rename(self._primary.folder / FOLDER)
        self._primary.start()
        await self._note_loss(began)
        await self._in_step()

    async def _note_loss(self, began: float) -> None:
        """What was acknowledged before the loss is read, and noted, after it: the event loop was busy with the servers."""
        await asyncio.sleep(READ_WITHIN)
        self.lost.append((began, clock.now()))

    def _copy(self) -> Path:
        """A copy of the append-only file; the server begins a new one now and then, and the copy is made anew then."""
        copy = self._primary.folder / "before"
        for _ in range(COPIES):
            try:
                return Path(shutil.copytree(self._primary.folder / FOLDER, copy))
            except (shutil.Error, FileNotFoundError):
                shutil.rmtree(copy, ignore_errors=True)
        raise AssertionError("the append-only file changed while it was copied, each time")

    async def fail_over(self, lag: float, *, demoted: bool) -> None:
        """The replica, which has heard nothing for so many seconds, takes over.

        Args:
            lag: seconds.
            demoted: the old primary lives, is made a replica of the new one, and keeps its clients' connections;
                else it is killed.
        """
        began = clock.now()
        self._between.fall_silent()
        await asyncio.sleep(lag)
        old, new = self._primary, self._replica
        if not demoted:
            old.kill()
        await _say(new, "REPLICAOF", "NO", "ONE")
        self._address.target = self._between.target = new.port
        if demoted:
            await _say(old, "REPLICAOF", *self._route())
        self._primary, self._replica = new, old
        if not demoted:
            old.forget_data()
            old.start()
        await self._note_loss(began)
        await self._follow()

    def _route(self) -> tuple[str, str]:
        return "127.0.0.1", self._between.url.rpartition(":")[2]

    async def _follow(self) -> None:
        await _say(self._replica, "REPLICAOF", *self._route())
        await self._in_step()

    async def _in_step(self) -> None:
        async def is_in_step() -> bool:
            info = await _say(self._replica, "INFO", "replication")
            return bool(info["master_link_status"] == "up")

        await eventually(is_in_step, IN_SYNC_WITHIN, what="a replica in step")

    async def close(self) -> None:
        """Nothing is left."""
        for proxy in (self._address, self._between):
            await proxy.close()
        if hasattr(self, "client"):
            await self.client.aclose()
        for server in self._servers:
            server.__exit__(None, None, None)


async def _say(server: ServerProcess, *words: str) -> Any:
    client: Any = redis.Redis(host="127.0.0.1", port=server.port)
    async with client:
        return await client.execute_command(*words)
