"""durability="replica": a publish counts as done when a replica has it as well."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

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
    with ServerProcess(access="tcp", options=("--repl-diskless-sync-delay", "0")) as server:
        yield server


def settings(master: ServerProcess) -> BrokerSettings:
    """A replica has half of the time to confirm: enough on a busy machine."""
    return BrokerSettings(url=master.url, namespace="copies", durability="replica", socket_timeout=60.0)


@pytest.fixture
def replica(master: ServerProcess) -> Iterator[ServerProcess]:
    options = ("--replicaof", "127.0.0.1", str(master.port))
    with ServerProcess(access="tcp", options=options) as server:
        yield server


async def _follows(replica: ServerProcess) -> None:
    """Waits until it has what the primary has. The primary calls it online before."""
    link = Link(Endpoint.parse(replica.url), Keys("copies"), BrokerSettings())

    async def is_linked() -> bool:
        return b"master_link_status:up" in await link.command("INFO", "replication")

    await eventually(is_linked, within=20)
    link.close()


async def _notes(server: ServerProcess) -> int:
    link = Link(Endpoint.parse(server.url), Keys("copies"), BrokerSettings())
    found = await link.command("XLEN", link.keys.of("topic:notes"))
    link.close()
    return int(found)


async def test_a_publish_returns_when_the_replica_has_it(
    master: ServerProcess, replica: ServerProcess
) -> None:
    async with RedisAgentRuntime(settings=settings(master)) as runtime:
        await _follows(replica)
        await runtime.publish_message("kept", TopicId("notes", "a"))
        assert await _notes(replica) == 1


async def test_a_connection_that_breaks_while_the_replica_is_waited_for_loses_nothing(
    master: ServerProcess, replica: ServerProcess
) -> None:
    async with RedisAgentRuntime(settings=settings(master)) as runtime:
        await _follows(replica)
        admin = runtime.transport.admin
        replica.signal(signal.SIGSTOP)
        publishing = asyncio.create_task(runtime.publish_message("kept", TopicId("notes", "a")))

        async def waiting() -> str:
            clients = (await admin.command("CLIENT", "LIST")).decode()
            found = re.search(r"^id=(\d+) .* cmd=wait ", clients, re.MULTILINE)
            return found[1] if found else ""

        await eventually(waiting, within=20)
        await admin.command("CLIENT", "KILL", "ID", await waiting())
        replica.signal(signal.SIGCONT)
        await publishing
        assert await _notes(replica) == await _notes(master) == 1


async def test_a_new_connection_does_not_confirm_what_went_over_the_old_one(
    master: ServerProcess, replica: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may lead to a server that was made the primary and never had it."""
    async with RedisAgentRuntime(settings=settings(master)) as runtime:
        await _follows(replica)
        link = runtime.transport.publisher._link
        run, calls = link.run, []

        async def break_after(name: str, *rest: Any, **more: Any) -> Any:
            answer = await run(name, *rest, **more)
            calls.append(name)
            if len(calls) == 1:
                link.break_off("cut")
            return answer

        monkeypatch.setattr(link, "run", break_after)
        await runtime.publish_message("kept", TopicId("notes", "a"))
        assert calls == ["publish", "publish"]
        assert await _notes(replica) == 1


async def test_without_a_replica_it_says_so(master: ServerProcess) -> None:
    async with RedisAgentRuntime(settings=replace(settings(master), socket_timeout=1.0)) as runtime:
        with pytest.raises(NotReplicatedError, match="check that a replica is connected"):
            await runtime.publish_message("alone", TopicId("notes", "a"))
