"""durability="replica": a publish counts as done when a replica has it as well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from callboard import RedisAgentRuntime, TopicId
from callboard.broker import BrokerSettings
from callboard.broker.errors import NotReplicatedError
from callboard.broker.redis.client.connection import Link
from callboard.broker.redis.client.endpoint import Endpoint
from callboard.broker.redis.keys import Keys

from ..helpers.eventually import eventually
from ..helpers.servers import ServerProcess


@pytest.fixture
def master() -> Iterator[ServerProcess]:
    with ServerProcess(access="tcp") as server:
        yield server


def settings(master: ServerProcess) -> BrokerSettings:
    return BrokerSettings(url=master.url, namespace="copies", durability="replica", socket_timeout=1.0)


async def test_a_publish_returns_when_the_replica_has_it(master: ServerProcess) -> None:
    options = ("--replicaof", "127.0.0.1", str(master.port))
    with ServerProcess(access="tcp", options=options) as replica:
        async with RedisAgentRuntime(settings=settings(master)) as runtime:
            admin = runtime.transport.admin

            async def is_linked() -> bool:
                return b"state=online" in await admin.command("INFO", "replication")

            await eventually(is_linked, within=20)
            await runtime.publish_message("kept", TopicId("notes", "a"))
            copy = Link(Endpoint.parse(replica.url), Keys("copies"), BrokerSettings())
            assert await copy.command("XLEN", copy.keys.of("topic:notes")) == 1
            copy.close()


async def test_without_a_replica_it_says_so(master: ServerProcess) -> None:
    async with RedisAgentRuntime(settings=settings(master)) as runtime:
        with pytest.raises(NotReplicatedError, match="check that a replica is connected"):
            await runtime.publish_message("alone", TopicId("notes", "a"))
