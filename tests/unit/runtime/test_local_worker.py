"""The worker of a process: its pulse, its heartbeat's end, and how it finds out that everything is idle."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from functools import partial

import pytest

from callboard.broker import BrokerSettings, MessageRegistry
from callboard.broker.mailbox import Turn
from callboard.broker.redis.client.heartbeat import Pulse
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.retry import RetryPolicy
from callboard.runtime.agents import LocalAgents
from callboard.runtime.execution import Executions
from callboard.runtime.lifecycle import STUCK, STUCK_AFTER, LocalWorker
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import quick
from tests.unit.recording import RecordingRuntime


class LocalWorkerFixture:
    """A worker without agent types, on a server in this process."""

    def __init__(
        self,
        exit_when_stuck: bool = False,
        settings: BrokerSettings | None = None,
        cancelled: Callable[[str], None] = lambda _: None,
    ) -> None:
        settings = settings or quick("worker")
        self.transport = RedisTransport(f"memory://worker-{os.urandom(4).hex()}", settings)
        self.sending = False
        self.worker = LocalWorker(
            LocalAgents(RecordingRuntime()),
            Executions(self.transport, MessageRegistry(), lambda name: None),
            {},
            RetryPolicy(),
            declare=self._declare,
            is_sending=lambda: self.sending,
            exit_when_stuck=exit_when_stuck,
            cancelled=cancelled,
        )

    async def _declare(self) -> None: ...

    async def close(self) -> None:
        await self.transport.close()


async def test_it_works_until_it_is_drained_and_leaves_nothing() -> None:
    threads, tasks = set(threading.enumerate()), asyncio.all_tasks()
    fixture = LocalWorkerFixture()
    task = asyncio.create_task(fixture.worker.run())
    await fixture.worker.consumer.joined.wait()
    assert any(thread.name == "callboard-heartbeat" for thread in threading.enumerate())
    await fixture.worker.drain(task, 5)
    assert set(threading.enumerate()) <= threads  # those of earlier tests may end meanwhile
    await fixture.close()
    left = [one for one in asyncio.all_tasks() - tasks - {task} if "fakeredis" not in str(one)]
    assert left == []


async def test_what_is_cancelled_anywhere_is_told() -> None:
    told: list[str] = []
    fixture = LocalWorkerFixture(cancelled=told.append)
    task = asyncio.create_task(fixture.worker.run())
    await fixture.worker.consumer.joined.wait()
    await fixture.transport.order("cancel", "token:1", fixture.transport.now_ms() + 60_000)
    await eventually(lambda: told == ["token:1"])
    await fixture.worker.drain(task, 5)
    await fixture.close()


async def test_an_idle_worker_is_idle_only_when_nothing_is_on_its_way() -> None:
    fixture = LocalWorkerFixture()
    task = asyncio.create_task(fixture.worker.run())
    await fixture.worker.consumer.joined.wait()
    fixture.sending = True
    looks: list[object] = []
    waiting = asyncio.create_task(fixture.worker.until_idle(task, lambda: bool(looks.append(None))))  # type: ignore[func-returns-value]
    await eventually(lambda: len(looks) > 5)
    assert not waiting.done()
    fixture.sending = False
    await asyncio.wait_for(waiting, 5)
    fixture.sending = True
    await asyncio.wait_for(fixture.worker.until_idle(task, lambda: True), 5)
    await fixture.worker.drain(task, 5)
    await asyncio.wait_for(fixture.worker.until_idle(task, lambda: False), 5)
    await fixture.close()


async def test_a_condition_is_asked_again_until_it_holds() -> None:
    fixture = LocalWorkerFixture()
    task = asyncio.create_task(fixture.worker.run())
    asked: list[int] = []

    def is_enough() -> bool:
        asked.append(1)
        return len(asked) > 3

    await asyncio.wait_for(fixture.worker.until(is_enough, task), 5)
    await fixture.worker.drain(task, 5)
    await asyncio.wait_for(fixture.worker.until(lambda: False, task), 5)
    await fixture.close()


@pytest.mark.parametrize("rounds", range(4))
async def test_a_cancellation_that_comes_with_a_change_is_not_lost(rounds: int) -> None:
    """Ctrl-C cancels the program once; one that went on had to be told twice."""
    fixture = LocalWorkerFixture()
    waiting = asyncio.create_task(fixture.worker._next_change(60))
    await asyncio.sleep(0)
    fixture.worker._changed.set()
    for _ in range(rounds):
        await asyncio.sleep(0)
    was_waiting = not waiting.done()
    waiting.cancel()
    await asyncio.wait({waiting})
    assert waiting.cancelled() is was_waiting
    await fixture.close()


async def test_a_turn_tells_the_clock_of_the_server() -> None:
    fixture = LocalWorkerFixture()
    fixture.worker.host.on_turn(Turn([], 5_000_000_000_000, None, False, False, ""))
    assert abs(fixture.transport.now_ms() - 5_000_000_000_000) < 1000
    await fixture.close()


async def test_each_turn_and_each_look_at_idle_agents_say_how_late_it_is() -> None:
    fixture = LocalWorkerFixture()
    worker, late = fixture.worker, asyncio.get_running_loop().time()
    worker.host.now = 0.0
    worker.host.on_turn(Turn([], 0, None, False, False, ""))
    assert worker.host.now >= late
    worker.host.now, worker.host.on_turn = 0.0, lambda turn: None
    task = asyncio.create_task(worker.run())
    assert await eventually(lambda: worker.host.now >= late)
    await worker.drain(task, 5)
    await fixture.close()


async def test_a_handler_that_blocks_the_loop_is_complained_of_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fixture = LocalWorkerFixture()
    with caplog.at_level(logging.ERROR, "callboard.actors"):
        for late in (0.0, STUCK_AFTER + 1, STUCK_AFTER + 2, 0.0, STUCK_AFTER + 1):
            monkeypatch.setattr(fixture.worker.host.limits, "overdue", partial(float, late))
            assert fixture.worker._pulse() == Pulse("", 0, 0, 0)
    assert len(caplog.records) == 2
    await fixture.close()


async def test_a_worker_that_may_ends_itself_when_it_is_stuck(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def leave(status: int) -> None:
        raise SystemExit(status)

    monkeypatch.setattr("callboard.runtime.lifecycle.os._exit", leave)
    fixture = LocalWorkerFixture(exit_when_stuck=True)
    fixture.worker._pulse()
    monkeypatch.setattr(fixture.worker.host.limits, "overdue", lambda: STUCK_AFTER + 1)
    with pytest.raises(SystemExit) as caught:
        fixture.worker._pulse()
    assert caught.value.code == STUCK
    assert "this worker ends itself" in caplog.text
    await fixture.close()


async def test_the_heart_of_a_worker_that_is_cut_off_does_not_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    fixture = LocalWorkerFixture()
    task = asyncio.create_task(fixture.worker.run())
    await fixture.worker.consumer.joined.wait()
    assert fixture.worker._pulse().worker == fixture.worker.consumer.worker
    monkeypatch.setattr(type(fixture.worker.consumer), "is_cut_off", True)
    assert fixture.worker._pulse().worker == ""
    await fixture.worker.drain(task, 5)
    await fixture.close()


async def test_the_beat_of_a_fenced_worker_wakes_it() -> None:
    fixture = LocalWorkerFixture(settings=quick("worker", lease=0.5, beat_every=0.05))
    task = asyncio.create_task(fixture.worker.run())
    await fixture.worker.consumer.joined.wait()
    first = fixture.worker.consumer.worker
    await fixture.transport.admin.run("leave", ("", "1", first))
    await eventually(lambda: fixture.worker.consumer.worker != first)
    await fixture.worker.drain(task, 5)
    await fixture.close()
