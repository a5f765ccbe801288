"""Servers that sentinels watch: clients follow the primary wherever it is, and say what is wrong where they can't."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis

from callboard import RedisAgentRuntime, TopicId
from callboard.broker import BrokerSettings
from callboard.broker.errors import ServerUnavailableError
from callboard.broker.redis.client import sentinels as primary_watch
from callboard.broker.redis.client.blocking import connect
from callboard.broker.redis.client.connection import Link
from callboard.broker.redis.client.endpoint import Endpoint
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.keys import Keys
from callboard.broker.redis.operations import server_checks as sentinels
from callboard.broker.redis.operations.doctor import Finding, Subject
from callboard.broker.redis.store import RedisStore
from tests.helpers.eventually import eventually
from tests.helpers.ledger import Ledger
from tests.helpers.processes import Process, python
from tests.helpers.sentinels import NAME, Sentinel, WatchedServers, replication
from tests.helpers.servers import ServerProcess, free_port
from tests.helpers.worker_fleet import WorkerFleet

KEYS = 12


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[WatchedServers]:
    with WatchedServers(tmp_path) as servers:
        yield servers


@pytest.fixture
async def fleet(watched: WatchedServers, tmp_path: Path) -> AsyncIterator[WorkerFleet]:
    namespace = f"watched-{os.urandom(4).hex()}"
    made = WorkerFleet(watched.url, namespace, tmp_path / "ledger", watched.servers[0].url)
    await made.open()
    yield made
    await made.close()


def _has_all(watched: WatchedServers) -> bool:
    """Whether the replica has what the primary has."""
    one, other = (replication(server) for server in watched.servers)
    return bool(one["master_repl_offset"] == other["slave_repl_offset"])


def _callboards(server: ServerProcess) -> list[str]:
    """The connections of ours that a server has."""
    with redis.Redis.from_url(server.url) as client:
        names = [one["name"] for one in client.client_list()]
    return [name for name in names if name.startswith("callboard")]


@pytest.mark.parametrize("dies", [True, False], ids=["the primary dies", "the primary is demoted"])
async def test_workers_and_publishers_follow_the_primary(
    watched: WatchedServers, fleet: WorkerFleet, dies: bool
) -> None:
    old, new = watched.servers
    for _ in range(2):
        await fleet.ready_worker("job")
    await fleet.publish_many(150, KEYS)
    await fleet.effects(150)
    await eventually(lambda: fleet.ledger.left_over("job") == [] and _has_all(watched), within=30)
    if dies:
        old.kill()
    else:
        with watched.sentinels[0].client() as client:
            client.execute_command("SENTINEL", "FAILOVER", NAME)
    await eventually(lambda: watched.is_primary(new), within=60)
    # One that is demoted takes writes for ten seconds more.
    await eventually(lambda: dies or _callboards(old) == [], within=30)
    ledger = fleet.ledger = Ledger(new.url, fleet.namespace, fleet.ledger.file)
    await fleet.publish_many(150, KEYS)
    await fleet.effects(300, within=60)
    await eventually(lambda: ledger.left_over("job") == [], within=30)
    in_order = {key: list(range(count)) for key, count in fleet.published.items()}
    done: dict[str, list[int]] = {}
    for effect in ledger.effects():
        done.setdefault(effect.key, []).append(effect.seq)
    assert done == in_order
    assert ledger.letters("job") == []


async def test_a_publish_during_a_failover_waits_for_the_new_primary(watched: WatchedServers) -> None:
    old, new = watched.servers
    async with RedisAgentRuntime(settings=BrokerSettings(url=watched.url, namespace="during")) as runtime:
        await runtime.publish_message("before", TopicId("notes", "a"))
        await eventually(lambda: _has_all(watched), within=30)
        old.kill()
        await runtime.publish_message("after", TopicId("notes", "a"))
    with redis.Redis.from_url(new.url) as client:
        assert client.xlen("callboard:{during}:topic:notes") == 2


async def test_a_sentinel_that_is_gone_or_hangs_is_passed_over(watched: WatchedServers) -> None:
    watched.sentinels[0].kill()
    watched.sentinels[1].pause()
    settings = BrokerSettings(connect_timeout=3.0)
    for _ in range(2):  # they are asked in random order
        link = Link(Endpoint.parse(watched.url), Keys("any"), settings)
        assert (await link.command("ROLE"))[0] == b"master"
        link.close()
        blocking = await asyncio.to_thread(connect, Endpoint.parse(watched.url), 3.0, "any")
        assert blocking.call(("ROLE",))[0] == b"master"
        blocking.close()


async def _refusal(url: str) -> str:
    """Why nobody can connect there, as each kind of connection says it."""
    link = Link(Endpoint.parse(url), Keys("any"), BrokerSettings(connect_timeout=1.0))
    with pytest.raises(ServerUnavailableError) as one:
        await link.channel()
    with pytest.raises(ServerUnavailableError) as other:
        await asyncio.to_thread(connect, Endpoint.parse(url), 1.0, "any")
    assert str(one.value).partition("(")[0] == str(other.value).partition("(")[0]
    return str(one.value)


async def test_it_says_why_no_primary_is_found(tmp_path: Path) -> None:
    with ServerProcess(access="tcp") as server, Sentinel(tmp_path, server, 1, "s3cret") as sentinel:
        where = f"127.0.0.1:{sentinel.port}"
        nobody = f"127.0.0.1:{free_port()}"
        assert "can't be asked" in await _refusal(f"redis+sentinel://{nobody}/{NAME}")
        login = "sentinel_password=s3cret"
        assert f"{where} watches no 'other'" in await _refusal(f"redis+sentinel://{where}/other?{login}")
        assert "NOAUTH" in await _refusal(f"redis+sentinel://{where}/{NAME}")
        refused = await _refusal(f"redis+sentinel://{where}/{NAME}?sentinel_password=wr0ng")
        assert "WRONGPASS" in refused
        assert "wr0ng" not in refused


async def test_a_primary_that_became_a_replica_is_not_taken(tmp_path: Path) -> None:
    """Sentinels say where the primary was, until they have heard of another one."""
    with (
        ServerProcess(access="tcp") as server,
        ServerProcess(access="tcp") as other,
        Sentinel(tmp_path, server, 5) as sentinel,
    ):
        with redis.Redis.from_url(server.url) as client:
            client.replicaof("127.0.0.1", other.port)
        assert "it is a replica" in await _refusal(f"redis+sentinel://127.0.0.1:{sentinel.port}/{NAME}")


async def test_a_user_who_may_not_ask_for_the_role_connects(tmp_path: Path) -> None:
    with ServerProcess(access="tcp") as server, Sentinel(tmp_path, server, 1) as sentinel:
        with redis.Redis.from_url(server.url) as client:
            client.acl_setuser(
                "ada", enabled=True, passwords=["+pw"], commands=["+ping", "+client|setname"], keys=["*"]
            )
        endpoint = Endpoint.parse(f"redis+sentinel://ada:pw@127.0.0.1:{sentinel.port}/{NAME}")
        link = Link(endpoint, Keys("any"), BrokerSettings())
        assert await link.command("PING") == b"PONG"
        link.close()
        blocking = await asyncio.to_thread(connect, endpoint, 3.0, "any")
        assert blocking.call(("PING",)) == b"PONG"
        blocking.close()


async def test_who_watches_does_not_connect_for_each_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logging in and encrypting each second cost more than all else that an idle process does."""
    monkeypatch.setattr(primary_watch, "LOOK_EVERY", 0.001)
    with ServerProcess(access="tcp") as server, Sentinel(tmp_path, server, 1) as sentinel:
        url = f"redis+sentinel://127.0.0.1:{sentinel.port}/{NAME}"
        store = RedisStore.at(url, BrokerSettings(namespace="watched"))
        await store.set("any", b"1", 60)
        with sentinel.client() as client:

            def stats(name: str) -> int:
                return int(client.info("stats")[name])

            await eventually(lambda: [1 for one in client.client_list() if one["name"] == "callboard-watch"])
            connections, commands = stats("total_connections_received"), stats("total_commands_processed")
            await eventually(lambda: stats("total_commands_processed") > commands + 100)
            assert stats("total_connections_received") == connections
            client.client_kill_filter(_type="normal", skipme=True)
            await eventually(lambda: stats("total_connections_received") > connections)
            store.close()
            await eventually(
                lambda: (
                    [one["name"] for one in client.client_list() if one["name"].startswith("callboard")] == []
                )
            )


async def _findings(url: str) -> list[Finding]:
    transport = RedisTransport(url, BrokerSettings(connect_timeout=2.0, namespace="examined"))
    found = await sentinels.examine_sentinels(Subject(transport))
    await transport.close()
    return list(found)


async def test_the_doctor_looks_at_each_of_them(tmp_path: Path) -> None:
    with (
        ServerProcess(access="tcp") as server,
        ServerProcess(access="tcp") as other,
        Sentinel(tmp_path, server, 1) as sentinel,
        Sentinel(tmp_path, server, 1) as second,
        Sentinel(tmp_path, other, 1) as astray,
    ):
        assert [finding.level for finding in await _findings(server.url)] == ["ok"]
        known, nobody = f"127.0.0.1:{sentinel.port}", f"127.0.0.1:{free_port()}"
        well = await _findings(f"redis+sentinel://{known}/{NAME}")
        assert [finding.level for finding in well] == ["ok", "info"]
        ill = await _findings(f"redis+sentinel://{known},{nobody}/{NAME}")
        assert [finding.level for finding in ill] == ["ok", "warning", "info"]
        assert nobody in ill[1].what
        torn = await _findings(
            f"redis+sentinel://{known},127.0.0.1:{second.port},127.0.0.1:{astray.port}/{NAME}"
        )
        assert torn[0].level == "error"
        assert f"{server.port}/0" in torn[0].what
        assert f"{other.port}/0" in torn[0].what


async def test_the_command_line_finds_the_primary(tmp_path: Path) -> None:
    with ServerProcess(access="tcp") as server, Sentinel(tmp_path, server, 1) as sentinel:
        url = f"redis+sentinel://127.0.0.1:{sentinel.port}/{NAME}"
        command = python("-m", "callboard", "server", "cli", "--url", url, "CONFIG", "GET", "port")
        process = Process(command, {})
        try:
            await process.says(str(server.port), within=60)
            assert await process.ended(within=30) == 0
        finally:
            process.close()
