"""Runs whose processes are killed with -9 all the time: who started them hears of each end once."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from callboard import AgentId, TopicId
from callboard.broker.redis.operations.inspect import overview
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import RunNotice
from tests.helpers.eventually import eventually
from tests.helpers.notice_desk import app
from tests.helpers.processes import ROOT, Process, python
from tests.helpers.runtimes import Note
from tests.helpers.servers import ServerProcess
from tests.helpers.worker_fleet import SHORT_LEASE

RUNS, KILLS = 30, 12
TYPES = (("plain",), ("plain.ann", "plain.bob"), ("clerk",))


@pytest.mark.parametrize("seed", [1, 2])
async def test_each_end_is_heard_once_whatever_dies(shared_server: ServerProcess, seed: int) -> None:
    url, namespace = shared_server.url, f"notices-{os.urandom(4).hex()}"
    environ = {**SHORT_LEASE, "CALLBOARD_MAX_ATTEMPTS": "50", "PYTHONPATH": str(ROOT)}
    where = ["--url", url, "--namespace", namespace]

    def worker(*types: str) -> Process:
        chosen = [word for name in types for word in ("--type", name)]
        target = "tests.helpers.notice_desk:app"
        return Process(python("-m", "callboard", "worker", target, *chosen, *where), environ)

    chance, processes = random.Random(seed), [worker(*types) for types in TYPES]
    runtime = RedisAgentRuntime.from_app(app, url, namespace=namespace, types=())

    async def heard() -> list[RunNotice]:
        state = await runtime.agent_save_state(AgentId("clerk", "ada"))
        return [RunNotice.model_validate(one) for one in state.get("heard", [])]

    def output() -> str:
        return "\n---\n".join(process.output()[-1500:] for process in processes)

    try:
        await runtime.open()
        for number in range(RUNS):
            await runtime.publish_message(Note(), TopicId("work", "ada"), message_id=f"n{number}")
        for killed in range(KILLS):

            async def got_on(least: int = killed) -> bool:
                return len(await heard()) >= min(least, RUNS)

            await eventually(got_on, 60, what=output)
            place = chance.randrange(len(TYPES))
            processes[place].close()
            processes[place] = worker(*TYPES[place])

        async def all_heard() -> bool:
            return len(await heard()) >= RUNS

        await eventually(all_heard, 60, what=output)

        async def is_quiet() -> bool:
            totals = (await overview(runtime.transport)).totals
            return (totals.waiting, totals.running) == (0, 0)

        await eventually(is_quiet, 60, what=output)
        notices = await heard()
        assert Counter(one.run_id for one in notices) == {f"n{number}": 1 for number in range(RUNS)}
        assert {(one.state, one.text) for one in notices} == {("completed", "bob speaks")}
    finally:
        for process in processes:
            process.close()
        await runtime.open()
        await runtime.transport.delete_namespace()
        await runtime.close()
