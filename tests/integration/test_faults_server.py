"""The server goes away, forgets, or loses parts: workers go on by themselves and say it in few lines."""

from __future__ import annotations

import asyncio
import time

import pytest
import redis

from actors import TopicId
from actors.runtime import RedisAgentRuntime
from broker import BrokerSettings
from broker.errors import ServerUnavailableError
from tests.helpers.eventually import eventually
from tests.helpers.jobs import Job, app
from tests.helpers.processes import Process
from tests.helpers.rigging import Site
from tests.helpers.servers import ServerProcess

FEW_LINES = 12  # that a worker writes about one trouble


async def _load(site: Site, count: int) -> None:
    for number in range(count):
        await site.publish(f"k{number % 20}", seconds=0.02)


def _check_lines(*workers: Process) -> None:
    for worker in workers:
        assert worker.is_alive, worker.output()
        assert not worker.lines("Traceback"), worker.output()
        assert len(worker.lines("WARNING")) + len(worker.lines("ERROR")) <= FEW_LINES, worker.output()


async def test_a_server_that_comes_back_with_its_file(own_site: Site, own_server: ServerProcess) -> None:
    site = own_site
    workers = [await site.ready_worker("job") for _ in range(2)]
    await _load(site, 300)
    own_server.kill()
    await asyncio.sleep(0.5)  # long enough for somebody to try in vain
    own_server.start()
    await _load(site, 100)
    await site.effects(400, within=20)
    await site.settled()
    site.ledger.check("job", site.published)
    _check_lines(*workers)


async def test_a_server_that_comes_back_empty(own_site: Site, own_server: ServerProcess) -> None:
    site = own_site
    workers = [await site.ready_worker("job") for _ in range(2)]
    await _load(site, 50)
    await site.effects(50)
    own_server.kill()
    own_server.forget_data()
    own_server.start()
    await _twenty_more(site)
    _check_lines(*workers)


async def test_flushall(own_site: Site) -> None:
    site = own_site
    workers = [await site.ready_worker("job") for _ in range(2)]
    await _load(site, 50)
    await site.effects(50)
    with redis.Redis.from_url(site.url) as server:
        server.flushall()
    await _twenty_more(site)
    _check_lines(*workers)


async def _twenty_more(site: Site) -> None:
    """What is published after the loss is handled within seconds, once and in order."""
    began = time.time()
    for number in range(20):
        await site.publish(f"n{number % 4}")
    await site.effects(20, within=10)
    assert time.time() - began < 5
    await site.settled()
    new = {key: number for key, number in site.published.items() if key.startswith("n")}
    site.ledger.check("job", new)


async def test_a_deleted_stream(site: Site) -> None:
    worker = await site.ready_worker("job")
    await _load(site, 40)
    await site.effects(40)
    with redis.Redis.from_url(site.url) as server:
        server.delete(f"callboard:{{{site.namespace}}}:topic:jobs")
    began = time.time()
    await _load(site, 40)
    await site.effects(80, within=5)
    assert time.time() - began < 3
    await site.settled()
    site.ledger.check("job", site.published)
    _check_lines(worker)
    assert any("made again" in event for event in site.ledger.events())


async def test_a_destroyed_group_under_load(site: Site) -> None:
    workers = [await site.ready_worker("job") for _ in range(2)]
    with redis.Redis.from_url(site.url) as server:
        for number in range(300):
            await site.publish(f"k{number % 20}", seconds=0.02)
            if number in (100, 200):
                server.xgroup_destroy(f"callboard:{{{site.namespace}}}:topic:jobs", "job")
    await site.effects(300)
    await site.settled()
    site.ledger.check("job", site.published)
    _check_lines(*workers)


async def test_every_client_is_killed_again_and_again(site: Site) -> None:
    workers = [await site.ready_worker("job") for _ in range(2)]
    with redis.Redis.from_url(site.url) as server:
        for number in range(400):
            await site.publish(f"k{number % 20}", seconds=0.02)
            if number % 80 == 40:
                for kind in ("normal", "pubsub"):
                    server.client_kill_filter(_type=kind, skipme=True)
    await site.effects(400)
    await site.settled()
    site.ledger.check("job", site.published)
    executions = site.ledger.executions()
    assert len(executions) == 400, "a broken connection repeats nothing"
    assert all(worker.is_alive for worker in workers)
    assert not any(worker.lines("Traceback") for worker in workers)


async def test_a_server_that_stands_still_for_longer_than_a_lease(
    own_site: Site, own_server: ServerProcess
) -> None:
    import signal

    site = own_site
    workers = [await site.ready_worker("job") for _ in range(2)]
    await _load(site, 100)
    own_server.signal(signal.SIGSTOP)
    await asyncio.sleep(2.0)  # two leases
    own_server.signal(signal.SIGCONT)
    await _load(site, 100)
    await site.effects(200)
    await site.settled()
    site.ledger.check("job", site.published)
    assert all(worker.is_alive for worker in workers)


async def test_publishing_fails_with_a_sentence_while_there_is_no_server(own_server: ServerProcess) -> None:
    settings = BrokerSettings(namespace="nobody", socket_timeout=1.0)
    runtime = RedisAgentRuntime.from_app(app, own_server.url, namespace="nobody", settings=settings, types=())
    await runtime.publish_message(Job(seq=0), TopicId("jobs", "a"))
    own_server.kill()
    began = time.monotonic()
    with pytest.raises(ServerUnavailableError) as caught:
        await runtime.publish_message(Job(seq=1), TopicId("jobs", "a"))
    assert time.monotonic() - began < 3
    assert "\n" not in str(caught.value)
    assert str(own_server.path) in str(caught.value)
    await runtime.close()


async def test_a_publish_under_way_when_the_server_restarts_is_not_lost(
    own_site: Site, own_server: ServerProcess
) -> None:
    site = own_site
    await site.ready_worker("job")
    await site.publish("a")
    own_server.kill()
    waiting = asyncio.gather(*(site.publish("a") for _ in range(50)))
    await eventually(lambda: site.publisher.transport.in_flight == 50)
    own_server.start()
    await waiting
    await site.effects(51)
    await site.settled()
    site.ledger.check("job", site.published)
