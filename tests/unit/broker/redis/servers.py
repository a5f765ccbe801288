"""What the tests of this folder work on: a redis-server, the valkey-server that is always there, and fakeredis."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest

from callboard.broker import BrokerSettings
from callboard.broker.mailbox import ConsumedType, Pull
from callboard.broker.redis.client.lane import WorkerLane
from callboard.broker.redis.client.publisher import FULL
from callboard.broker.redis.client.transport import Declared, RedisTransport
from callboard.broker.redis.library import Mark
from tests.helpers.commits import Done
from tests.helpers.servers import ServerProcess, kinds


@pytest.fixture(scope="session", params=[*kinds(), "fakeredis"])
def server_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """One server of each kind for the whole session."""
    if request.param == "fakeredis":
        yield f"memory://inspect-{os.getpid()}"
        return
    with ServerProcess(request.param) as server:
        yield server.url


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


class WorkerDriver:
    """Publishes, and works as a worker would, one step at a time."""

    def __init__(self, transport: RedisTransport, lane: WorkerLane) -> None:
        self.transport = transport
        self.lane = lane

    async def publish(
        self, stream: str, key: str, *, body: bytes = b"{}", due: int = 0, id: str = "", head: bytes = b""
    ) -> None:
        """Publishes one message; any head, also one that no envelope has."""
        values = (id or f"m{os.urandom(4).hex()}", key, "", head, body, due, "", "")
        once = (os.urandom(8).hex(), 1, "60000 1000 0 0", 1, "")
        await self.transport.admin.run("publish", (*once, FULL, stream, "Visit", 1, *values))

    async def take(self, agent_type: str, count: int = 10, *done: Done) -> list[Done]:
        """Takes entries; returns them as if they were handled."""
        turn = await self.lane.commit_and_pull(done, Pull([ConsumedType(agent_type)], count, 0, True, 0))
        return [Done(delivery, Mark.COMMIT, ()) for delivery in turn.deliveries]

    async def take_all(self, agent_type: str) -> list[Done]:
        """Takes entries until there are no more."""
        taken = found = await self.take(agent_type)
        while found:
            found = await self.take(agent_type)
            taken = taken + found
        return taken

    async def finish(self, *done: Done) -> None:
        await self.lane.commit_and_pull(done, Pull((), 0, 0, False, 0))

    async def bury(self, agent_type: str, reason: str = "failed") -> None:
        """Takes everything of a type and gives it up."""
        for done in await self.take_all(agent_type):
            extras = (reason, "ValueError: no", "Traceback ...", 3, "1763700000000")
            await self.finish(Done(done.delivery, Mark.DEAD_LETTER, extras))


@pytest.fixture
async def driver(transport: RedisTransport) -> AsyncIterator[WorkerDriver]:
    """A worker for both types that has joined."""
    lane = transport.lane()
    await lane.join(["counter", "audit"])
    yield WorkerDriver(transport, lane)
    await lane.leave()
    lane.close()
