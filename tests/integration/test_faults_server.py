"""The server goes away, forgets, or loses parts: workers go on by themselves and say it in few lines."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import redis

from callboard import TopicId
from callboard.broker import BrokerSettings
from callboard.broker.errors import ServerUnavailableError
from callboard.broker.redis.operations.doctor import examine
from callboard.runtime.runtime import RedisAgentRuntime
from tests.helpers.eventually import eventually
from tests.helpers.jobs import Job, app
from tests.helpers.processes import Process
from tests.helpers.servers import ServerProcess, best_kind
from tests.helpers.worker_fleet import WorkerFleet

LEASE = 1.0  # seconds, see SHORT_LEASE
FEW_LINES = 12  # that a worker writes about one trouble


async def _load(fleet: WorkerFleet, count: int) -> None:
    for number in range(count):
        await fleet.publish(f"k{number % 20}", seconds=0.02)


def _check_lines(*workers: Process) -> None:
    for worker in workers:
        assert worker.is_alive, worker.output()
        assert not worker.lines("Traceback"), worker.output()
        assert len(worker.lines("WARNING")) + len(worker.lines("ERROR")) <= FEW_LINES, worker.output()


async def test_a_server_that_comes_back_with_its_file(
    own_fleet: WorkerFleet, own_server: ServerProcess
) -> None:
    fleet = own_fleet
    workers = [await fleet.ready_worker("job") for _ in range(2)]
    await _load(fleet, 300)
    own_server.kill()
    await asyncio.sleep(0.5)  # long enough for somebody to try in vain
    own_server.start()
    await _load(fleet, 100)
    await fleet.effects(400, within=20)
    await fleet.settled()
    fleet.ledger.check("job", fleet.published)
    _check_lines(*workers)


@pytest.mark.parametrize("own_server", [best_kind()], indirect=True)  # stopped, all servers are alike
async def test_a_server_that_stands_still_again_and_again_takes_nobody_for_dead(
    own_fleet: WorkerFleet, own_server: ServerProcess
) -> None:
    """All leases end while it stands still, and the first worker that comes through must not bury the others."""
    fleet = own_fleet
    workers = [await fleet.ready_worker("job") for _ in range(3)]
    await fleet.publish_many(1800, keys=60, seconds=0.1)
    for stall in range(1, 5):
        await fleet.effects(100 * stall)
        own_server.signal(signal.SIGSTOP)
        await asyncio.sleep(1.4 * LEASE)  # it is the length of the stop that is tested here
        own_server.signal(signal.SIGCONT)
    await fleet.effects(1800, within=60)
    await fleet.settled()
    assert fleet.ledger.letters("job") == []
    assert {one.attempt for one in fleet.ledger.executions()} == {1}
    fleet.ledger.check("job", fleet.published)
    assert all(worker.is_alive for worker in workers)


async def test_a_server_that_comes_back_empty(own_fleet: WorkerFleet, own_server: ServerProcess) -> None:
    fleet = own_fleet
    workers = [await fleet.ready_worker("job") for _ in range(2)]
    await _load(fleet, 50)
    await fleet.effects(50)
    own_server.kill()
    own_server.forget_data()
    own_server.start()
    await _twenty_more(fleet)
    _check_lines(*workers)


async def test_flushall(own_fleet: WorkerFleet) -> None:
    fleet = own_fleet
    workers = [await fleet.ready_worker("job") for _ in range(2)]
    await _load(fleet, 50)
    await fleet.effects(50)
    with redis.Redis.from_url(fleet.url) as server:
        server.flushall()
    await _twenty_more(fleet)
    _check_lines(*workers)


async def _twenty_more(fleet: WorkerFleet) -> None:
    """What is published after the loss is handled within seconds, once and in order."""
    for number in range(20):
        await fleet.publish(f"n{number % 4}")
    await fleet.effects(20, within=20)
    await fleet.settled()
    new = {key: number for key, number in fleet.published.items() if key.startswith("n")}
    fleet.ledger.check("job", new)


async def test_a_deleted_stream(fleet: WorkerFleet) -> None:
    worker = await fleet.ready_worker("job")
    await _load(fleet, 40)
    await fleet.effects(40)
    with redis.Redis.from_url(fleet.url) as server:
        server.delete(f"callboard:{{{fleet.namespace}}}:topic:jobs")
    await _load(fleet, 40)
    await fleet.effects(80, within=20)
    await fleet.settled()
    fleet.ledger.check("job", fleet.published)
    _check_lines(worker)
    assert any("made again" in event for event in fleet.ledger.events())


async def test_a_destroyed_group_under_load(fleet: WorkerFleet) -> None:
    workers = [await fleet.ready_worker("job") for _ in range(2)]
    with redis.Redis.from_url(fleet.url) as server:
        for number in range(300):
            await fleet.publish(f"k{number % 20}", seconds=0.02)
            if number in (100, 200):
                server.xgroup_destroy(f"callboard:{{{fleet.namespace}}}:topic:jobs", "job")
    await fleet.effects(300)
    await fleet.settled()
    fleet.ledger.check("job", fleet.published)
    _check_lines(*workers)


async def test_every_client_is_killed_again_and_again(fleet: WorkerFleet) -> None:
    workers = [await fleet.ready_worker("job") for _ in range(2)]
    with redis.Redis.from_url(fleet.url) as server:
        for number in range(400):
            await fleet.publish(f"k{number % 20}", seconds=0.02)
            if number % 80 == 40:
                for kind in ("normal", "pubsub"):
                    server.client_kill_filter(_type=kind, skipme=True)
    await fleet.effects(400)
    await fleet.settled()
    fleet.ledger.check("job", fleet.published)
    executions = fleet.ledger.executions()
    assert len(executions) == 400, "a broken connection repeats nothing"
    assert all(worker.is_alive for worker in workers)
    assert not any(worker.lines("Traceback") for worker in workers)


async def test_a_server_that_stands_still_for_longer_than_a_lease(
    own_fleet: WorkerFleet, own_server: ServerProcess
) -> None:
    import signal

    fleet = own_fleet
    workers = [await fleet.ready_worker("job") for _ in range(2)]
    await _load(fleet, 100)
    own_server.signal(signal.SIGSTOP)
    await asyncio.sleep(2.0)  # two leases
    own_server.signal(signal.SIGCONT)
    await _load(fleet, 100)
    await fleet.effects(200)
    await fleet.settled()
    fleet.ledger.check("job", fleet.published)
    assert all(worker.is_alive for worker in workers)


async def test_publishing_fails_with_a_sentence_while_there_is_no_server(own_server: ServerProcess) -> None:
    settings = BrokerSettings(namespace="nobody", socket_timeout=1.0)
    runtime = RedisAgentRuntime.from_app(app, own_server.url, namespace="nobody", settings=settings, types=())
    await runtime.publish_message(Job(seq=0), TopicId("jobs", "a"))
    own_server.kill()
    began = time.monotonic()
    with pytest.raises(ServerUnavailableError) as caught:
        await runtime.publish_message(Job(seq=1), TopicId("jobs", "a"))
    assert time.monotonic() - began < 20, "socket_timeout is a second"
    assert "\n" not in str(caught.value)
    assert str(own_server.path) in str(caught.value)
    await runtime.close()


async def test_a_publish_under_way_when_the_server_restarts_is_not_lost(
    own_fleet: WorkerFleet, own_server: ServerProcess
) -> None:
    fleet = own_fleet
    await fleet.ready_worker("job")
    await fleet.publish("a")
    own_server.kill()
    waiting = asyncio.gather(*(fleet.publish("a") for _ in range(50)))
    await eventually(lambda: fleet.publisher.transport.in_flight == 50)
    own_server.start()
    await waiting
    await fleet.effects(51)
    await fleet.settled()
    fleet.ledger.check("job", fleet.published)


async def test_a_server_that_can_not_write_its_snapshots_is_waited_for(tmp_path: Path) -> None:
    """The finding: publishers failed at once, and the doctor said that the URL might be wrong."""
    with ServerProcess(options=("--enable-protected-configs", "yes")) as server:
        fleet = WorkerFleet(server.url, f"full-{os.urandom(4).hex()}", tmp_path / "ledger")
        await fleet.open()
        worker = await fleet.ready_worker("job")
        admin: Any = redis.Redis.from_url(server.url)
        await _lose_its_folder(server, admin)
        publishing = asyncio.create_task(_load(fleet, 20))
        report = await examine(fleet.publisher.transport)
        assert {"the last snapshot failed"} <= {one.what for one in report.findings}
        assert "connection" not in {one.check for one in report.findings}
        admin.config_set("save", "")
        await publishing
        await fleet.effects(20)
        fleet.ledger.check("job", fleet.published)
        _check_lines(worker)
        admin.close()
        await fleet.close()


async def _lose_its_folder(server: ServerProcess, admin: Any) -> None:
    """Until `save` is "" the server takes no writes."""
    gone = server.folder / "gone"
    gone.mkdir()
    admin.config_set("dir", str(gone))
    gone.rmdir()
    admin.config_set("save", "3600 1")
    admin.bgsave()

    def refuses() -> bool:
        try:
            admin.set("anything", 1)
        except redis.ResponseError as error:
            return "MISCONF" in str(error)
        return False

    await eventually(refuses)
