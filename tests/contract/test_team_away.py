"""A run on the bus whose processes are all down: how it stands is known at once, and its readers wait for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from callboard import App
from callboard.agents import UserProxyAgent
from callboard.runs import a_attach, a_run
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import RoundRobinGroupChat, RunUnknownError
from tests.helpers.chat import Echo, texts
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Runtimes


def a_team(*members: Any) -> RoundRobinGroupChat:
    return RoundRobinGroupChat(members or [Echo("a")], name="poets", max_turns=2)


async def started(runtimes: Runtimes, team: RoundRobinGroupChat) -> RedisAgentRuntime:
    app = App("away")
    app.team(team)
    worker = runtimes.of(app)
    worker.start()
    await worker.ready()
    return worker


@pytest.fixture
async def client(runtimes: Runtimes) -> RedisAgentRuntime:
    """Reaches the server, and runs nothing; a request without an answer would last longer than the test may."""
    made = runtimes.new(settings={"request_timeout": 300.0})
    await made.open()
    return made


@pytest.mark.real_server("a worker closes, and the server stays")
async def test_how_a_run_stands_is_known_while_all_its_processes_are_down(
    runtimes: Runtimes, client: RedisAgentRuntime
) -> None:
    team = a_team(UserProxyAgent("guest"), Echo("b"))
    worker = await started(runtimes, team)
    response = await a_run(team, message="go", runtime=client)
    await eventually(client.inputs.list)
    waits = await a_run(team, message="later", runtime=client, conversation="other", step=True)
    assert await waits.state == "working"
    await worker.close()
    async with asyncio.timeout(5):
        assert await response.state == "input_required"
        assert await waits.state == "working"
        again = await a_attach(client, response.run_id)
        assert await again.state == "input_required"
        with pytest.raises(RunUnknownError):
            _ = await (await a_attach(client, "no such run", team="poets", conversation="other")).state
    reading = asyncio.create_task(again.result())
    [question] = await client.inputs.list()
    await client.inputs.answer(question.id, "hello")
    assert not reading.done()
    await started(runtimes, a_team(UserProxyAgent("guest"), Echo("b")))
    assert texts(await reading) == ["go", "hello", "b1:go,hello"]
    assert await response.state == "completed"
