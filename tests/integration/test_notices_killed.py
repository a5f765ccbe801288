"""Runs whose processes are killed with -9 all the time: who started them hears of each end once."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest

from callboard import AgentId, TopicId
from callboard.broker.redis.operations.inspect import overview
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import RunNotice
from tests.helpers.eventually import eventually
from tests.helpers.notice_desk import Job, app
from tests.helpers.processes import ROOT, Process, python
from tests.helpers.runtimes import Note, end
from tests.helpers.servers import ServerProcess
from tests.helpers.worker_fleet import SHORT_LEASE

RUNS, KILLS = 30, 12
TYPES = (("plain",), ("plain.ann", "plain.bob"), ("clerk", "waiter"))


class DeskFixture:
    """The desk in processes of its own, one of which dies again and again; its client is in this one."""

    def __init__(self, url: str) -> None:
        namespace = f"notices-{os.urandom(4).hex()}"
        self._where = ["--url", url, "--namespace", namespace]
        self.runtime = RedisAgentRuntime.from_app(app, url, namespace=namespace, types=())
        self._processes = [self._worker(*types) for types in TYPES]

    def _worker(self, *types: str) -> Process:
        chosen = [word for name in types for word in ("--type", name)]
        command = python("-m", "callboard", "worker", "tests.helpers.notice_desk:app", *chosen, *self._where)
        environ = {**SHORT_LEASE, "CALLBOARD_MAX_ATTEMPTS": "50", "PYTHONPATH": str(ROOT)}
        return Process(command, environ)

    def output(self) -> str:
        return "\n---\n".join(process.output()[-1500:] for process in self._processes)

    async def goes_on(self, seed: int, ended: Callable[[], Awaitable[int]]) -> None:
        """Until all runs have ended; whenever one has, a process is killed and another takes its place."""
        chance = random.Random(seed)
        for kills in range(KILLS):

            async def got_on(least: int = kills) -> bool:
                return await ended() >= least

            await eventually(got_on, 60, what=self.output)
            place = chance.randrange(len(TYPES))
            self._processes[place].close()
            self._processes[place] = self._worker(*TYPES[place])

        async def is_quiet() -> bool:
            totals = (await overview(self.runtime.transport)).totals
            waits = (totals.waiting, totals.running, totals.suspended)
            return await ended() >= RUNS and waits == (0, 0, 0)

        await eventually(is_quiet, 60, what=self.output)

    async def state(self, agent: AgentId) -> Mapping[str, Any]:
        return await self.runtime.agent_save_state(agent)

    async def close(self) -> None:
        await end(self.runtime, self._processes)


@pytest.fixture
async def desk(shared_server: ServerProcess) -> AsyncIterator[DeskFixture]:
    made = DeskFixture(shared_server.url)
    await made.runtime.open()
    yield made
    await made.close()


@pytest.mark.parametrize("seed", [1, 2])
async def test_each_end_is_heard_once_whatever_dies(desk: DeskFixture, seed: int) -> None:
    async def heard() -> list[RunNotice]:
        state = await desk.state(AgentId("clerk", "ada"))
        return [RunNotice.model_validate(one) for one in state.get("heard", [])]

    async def ended() -> int:
        return len(await heard())

    for number in range(RUNS):
        await desk.runtime.publish_message(Note(), TopicId("work", "ada"), message_id=f"n{number}")
    await desk.goes_on(seed, ended)
    notices = await heard()
    assert Counter(one.run_id for one in notices) == {f"n{number}": 1 for number in range(RUNS)}
    assert {(one.state, one.text) for one in notices} == {("completed", "bob speaks")}


@pytest.mark.parametrize("seed", [3, 4])
async def test_a_handler_that_waits_goes_on_once_whatever_dies(desk: DeskFixture, seed: int) -> None:
    keys = [f"k{number}" for number in range(RUNS)]

    async def said() -> list[list[str]]:
        states = [await desk.state(AgentId("waiter", key)) for key in keys]
        return [state.get("said", []) for state in states]

    async def ended() -> int:
        return sum(map(len, await said()))

    for key in keys:
        job = Job(teams=["plain"])
        await desk.runtime.publish_message(job, TopicId("tables", key), message_id=f"j{key}")
    await desk.goes_on(seed, ended)
    assert [[text.partition(" ")[2] for text in texts] for texts in await said()] == [["bob speaks"]] * RUNS
