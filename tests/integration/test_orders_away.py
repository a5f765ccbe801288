"""Orders to a run whose manager dies, or stands still, at each step of them, for longer than the caller waits.

However it goes, the readers of the run, `runs list`, the conversation and its members agree on what became of the order, and
nobody waits for a member that will not speak.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from callboard import App, RedisAgentRuntime
from callboard.broker import BrokerSettings
from callboard.broker.errors import RequestTimeoutError
from callboard.runs import a_attach
from callboard.teams import RunCancelledError, TeamClient, list_runs
from callboard.teams.loop import ORDER_STEPS
from tests.helpers.chat import texts
from tests.helpers.eventually import eventually
from tests.helpers.ordered_team import NAME, Gated, app as the_app
from tests.helpers.processes import ROOT, Process, python
from tests.helpers.servers import ServerProcess
from tests.helpers.worker_fleet import SHORT_LEASE

PATIENCE = 1.5  # seconds for an answer to an order
BEFORE = "before"  # the manager is away when the order comes
SOON = 20  # seconds in which all has to be settled, also on a busy machine

STEPS = (BEFORE, *ORDER_STEPS)
IS_TAKEN = ORDER_STEPS[1:]  # it is committed by then
ENDS = ("SIGKILL", "SIGSTOP")


class Managers:
    """The processes of the manager: one that goes away, and one that comes for it."""

    def __init__(self, url: str, namespace: str, folder: Path) -> None:
        self.deaths = folder
        self._processes: list[Process] = []
        self._command = python("-m", "callboard", "worker", "tests.helpers.ordered_team:app", "--type", NAME)
        self._command += ["--url", url, "--namespace", namespace]

    async def begin(self, step: str = "", end: str = "") -> Process:
        environ = {
            **SHORT_LEASE,
            "PYTHONPATH": str(ROOT),
            "DEATHS": str(self.deaths),
            "DIES_AT": f"{NAME} {step}",
            "DIES_BY": end or "SIGKILL",
        }
        process = Process(self._command, environ)
        self._processes.append(process)
        await process.says("works as", 30)
        return process

    async def is_away(self, step: str) -> None:
        """Waits until the first one has come to that step, which was its last."""
        mark = self.deaths / f"{NAME} {step}".replace(" ", "-")
        await eventually(mark.exists, SOON, what=self._processes[0].output)

    def close(self) -> None:
        for process in self._processes:
            process.close()


class Stage:
    """A run in which the member is about to speak, and who gives it orders."""

    def __init__(self, runtime: RedisAgentRuntime, managers: Managers) -> None:
        self.runtime = runtime
        self.managers = managers
        self.client = TeamClient(runtime, NAME)

    async def begin(self, step: str, end: str) -> None:
        """The member speaks, and the manager has gone away where it is to be away before the order."""
        self._first = await self.managers.begin(step, end)
        self.reading = asyncio.ensure_future(self.client.run(task="go", run_id="one"))
        await asyncio.wait_for(Gated.began.wait(), SOON)
        self._step = step
        if step == BEFORE:
            self._first.signal(signal.Signals[end])

    async def give(self, order: str) -> bool:
        """Gives an order; whether there was an answer."""
        try:
            if order == "abort":
                await self.client.abort("one")
            elif order == "pause":
                await self.client.pause(now=True, run_id="one")
            else:
                await self.client.start(task="second", run_id="two", if_busy="interrupt")
        except RequestTimeoutError:
            return False
        return True

    async def another_comes(self) -> None:
        """For the one that went away."""
        if self._step != BEFORE:
            await self.managers.is_away(self._step)
        await self.managers.begin()
        await eventually(self._has_answer, SOON)

    async def it_comes_back(self) -> None:
        """The one that went away, if it only stood still."""
        if self._first.is_alive:
            self._first.signal(signal.SIGCONT)
            await asyncio.sleep(0.5)  # what it was about to do, it does now

    async def _has_answer(self) -> bool:
        try:
            await self.client.status()
        except RequestTimeoutError:
            return False
        return True

    async def state(self) -> str:
        """How the first run stands, on which all have to agree who are asked."""
        (listed,) = [run for run in await list_runs(self.runtime) if run.run_id == "one"]
        response = await a_attach(self.runtime, "one", team=NAME)
        status = await self.client.describe("one")
        said = {listed.state, await response.state, "over" if status.state == "idle" else status.state}
        is_over = listed.state in ("cancelled", "completed")
        assert said == ({listed.state, "over"} if is_over else {listed.state}), said
        return listed.state

    async def is_paused_to_the_last(self) -> bool:
        """Whether the server keeps the member from speaking."""
        return [pause.name for pause in await self.runtime.control.paused()] == [f"{NAME}.a/default"]

    async def thread(self) -> list[str]:
        """What the conversation has."""
        states = (await self.client.save_state())["agent_states"]
        return [message["content"] for message in states["RoundRobinGroupChatManager"]["message_thread"]]


@pytest.fixture
async def stage(shared_server: ServerProcess, tmp_path: Path) -> AsyncIterator[Stage]:
    Gated.began, Gated.gate, Gated.interrupted = asyncio.Event(), asyncio.Event(), 0
    namespace = f"orders-{os.urandom(4).hex()}"
    settings = BrokerSettings(namespace=namespace, request_timeout=PATIENCE, lease=1.0, beat_every=0.2)
    managers = Managers(shared_server.url, namespace, tmp_path)
    here: App = the_app
    async with RedisAgentRuntime.from_app(
        here, shared_server.url, settings=settings, namespace=namespace, types=[f"{NAME}.a"]
    ) as runtime:
        runtime.start()
        await runtime.ready()
        yield Stage(runtime, managers)
    managers.close()


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("step", STEPS)
async def test_a_run_that_is_aborted_is_cancelled(stage: Stage, step: str, end: str) -> None:
    await stage.begin(step, end)
    assert await stage.give("abort") is (step in IS_TAKEN)
    await stage.another_comes()
    await stage.it_comes_back()
    with pytest.raises(RunCancelledError):
        await asyncio.wait_for(stage.reading, SOON)
    await eventually(lambda: Gated.interrupted == 1, SOON, what="the member is interrupted")
    assert await stage.state() == "cancelled"
    Gated.gate.set()
    after = await asyncio.wait_for(stage.client.run(task="after"), SOON)
    assert texts(after) == ["after", "a1:go,after"]
    assert await stage.thread() == ["go", "after", "a1:go,after"]
    assert await stage.runtime.control.paused() == []


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("step", STEPS)
async def test_a_run_is_paused_with_its_members_or_goes_on_with_them(
    stage: Stage, step: str, end: str
) -> None:
    await stage.begin(step, end)
    is_paused = await stage.give("pause")
    assert is_paused is (step in IS_TAKEN)
    await stage.another_comes()
    assert await stage.state() == ("paused" if is_paused else "working")
    if is_paused:
        await eventually(stage.is_paused_to_the_last, SOON, what="the member is paused")
        assert await stage.client.resume(run_id="one")
    await stage.it_comes_back()
    Gated.gate.set()
    assert texts(await asyncio.wait_for(stage.reading, SOON)) == ["go", "a1:go"]
    assert await stage.state() == "completed"
    assert await stage.thread() == ["go", "a1:go"]
    assert await stage.runtime.control.paused() == []


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("step", STEPS)
async def test_a_task_takes_the_place_of_a_run_or_leaves_it_alone(stage: Stage, step: str, end: str) -> None:
    await stage.begin(step, end)
    is_taken = await stage.give("interrupt")
    assert is_taken is (step in IS_TAKEN)
    await stage.another_comes()
    await stage.it_comes_back()
    Gated.gate.set()
    if is_taken:
        with pytest.raises(RunCancelledError):
            await asyncio.wait_for(stage.reading, SOON)
        items = [item async for item in stage.client.follow("two")]
        assert texts(items[-1]) == ["second", "a1:go,second"]  # type: ignore[arg-type]
        assert await stage.thread() == ["go", "second", "a1:go,second"]
    else:
        assert texts(await asyncio.wait_for(stage.reading, SOON)) == ["go", "a1:go"]
        assert await stage.thread() == ["go", "a1:go"]
    assert await stage.state() == ("cancelled" if is_taken else "completed")
    assert await stage.runtime.control.paused() == []
