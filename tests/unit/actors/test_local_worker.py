"""The worker of a process: its pulse, its heartbeat's end, and how it finds out that everything is idle."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from actors.host import AgentHost
from actors.local_agents import LocalAgents
from actors.local_worker import STUCK, STUCK_AFTER, LocalWorker
from broker import BrokerSettings
from broker.redis.lane import Turn
from broker.redis.transport import RedisTransport
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import quick
from tests.unit.actors.recording import RecordingRuntime


class Host:
    """A host that handles nothing."""

    def __init__(self, on_turn: Callable[[Turn], None]) -> None:
        self.agents = LocalAgents(RecordingRuntime())
        self.add_waiting: Any = None
        self.on_turn = on_turn
        self.late = 0.0

    def overdue(self) -> float:
        return self.late

    async def declare(self) -> None: ...

    def accepts(self) -> dict[str, int]:
        return {}

    def fenced(self, running: Any) -> None: ...


class Site:
    """A worker without agent types, on a server in this process."""

    def __init__(self, exit_when_stuck: bool = False, settings: BrokerSettings | None = None) -> None:
        settings = settings or quick("worker")
        self.transport = RedisTransport(f"memory://worker-{os.urandom(4).hex()}", settings)
        self.sending = False
        self.hosts: list[Host] = []
        make = cast("Callable[[Callable[[Turn], None]], AgentHost]", self._make)
        self.worker = LocalWorker(self.transport, make, {}, lambda: self.sending, exit_when_stuck)

    def _make(self, on_turn: Callable[[Turn], None]) -> Host:
        self.hosts.append(Host(on_turn))
        return self.hosts[-1]

    async def close(self) -> None:
        await self.transport.close()


async def test_it_works_until_it_is_drained_and_leaves_nothing() -> None:
    threads, tasks = set(threading.enumerate()), asyncio.all_tasks()
    site = Site()
    task = asyncio.create_task(site.worker.run())
    await site.worker.consumer.joined.wait()
    assert any(thread.name == "callboard-heartbeat" for thread in threading.enumerate())
    await site.worker.drain(task, 5)
    assert set(threading.enumerate()) == threads
    await site.close()
    left = [one for one in asyncio.all_tasks() - tasks - {task} if "fakeredis" not in str(one)]
    assert left == []


async def test_an_idle_worker_is_idle_only_when_nothing_is_on_its_way() -> None:
    site = Site()
    task = asyncio.create_task(site.worker.run())
    await site.worker.consumer.joined.wait()
    site.sending = True
    looks: list[object] = []
    waiting = asyncio.create_task(site.worker.until_idle(task, lambda: bool(looks.append(None))))  # type: ignore[func-returns-value]
    await eventually(lambda: len(looks) > 5)
    assert not waiting.done()
    site.sending = False
    await asyncio.wait_for(waiting, 5)
    site.sending = True
    await asyncio.wait_for(site.worker.until_idle(task, lambda: True), 5)
    await site.worker.drain(task, 5)
    await asyncio.wait_for(site.worker.until_idle(task, lambda: False), 5)
    await site.close()


async def test_a_condition_is_asked_again_until_it_holds() -> None:
    site = Site()
    task = asyncio.create_task(site.worker.run())
    asked: list[int] = []

    def is_enough() -> bool:
        asked.append(1)
        return len(asked) > 3

    await asyncio.wait_for(site.worker.until(is_enough, task), 5)
    await site.worker.drain(task, 5)
    await asyncio.wait_for(site.worker.until(lambda: False, task), 5)
    await site.close()


async def test_a_turn_tells_the_clock_of_the_server() -> None:
    site = Site()
    site.hosts[0].on_turn(Turn([], 5_000_000_000_000, None, False, False, ""))
    assert abs(site.transport.now_ms() - 5_000_000_000_000) < 1000
    await site.close()


async def test_a_handler_that_blocks_the_loop_is_complained_of_once(caplog: pytest.LogCaptureFixture) -> None:
    site = Site()
    with caplog.at_level(logging.ERROR, "callboard.actors"):
        for late in (0.0, STUCK_AFTER + 1, STUCK_AFTER + 2, 0.0, STUCK_AFTER + 1):
            site.hosts[0].late = late
            assert site.worker._pulse() == ("", 0, 0)
    assert len(caplog.records) == 2
    await site.close()


async def test_a_worker_that_may_ends_itself_when_it_is_stuck(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def leave(status: int) -> None:
        raise SystemExit(status)

    monkeypatch.setattr("actors.local_worker.os._exit", leave)
    site = Site(exit_when_stuck=True)
    site.worker._pulse()
    site.hosts[0].late = STUCK_AFTER + 1
    with pytest.raises(SystemExit) as caught:
        site.worker._pulse()
    assert caught.value.code == STUCK
    assert "this worker ends itself" in caplog.text
    await site.close()


async def test_the_beat_of_a_fenced_worker_wakes_it() -> None:
    site = Site(settings=quick("worker", lease=0.5, beat_every=0.05))
    task = asyncio.create_task(site.worker.run())
    await site.worker.consumer.joined.wait()
    first = site.worker.consumer.worker
    await site.transport.admin.run("leave", ("", "1", first))
    await eventually(lambda: site.worker.consumer.worker != first)
    await site.worker.drain(task, 5)
    await site.close()
