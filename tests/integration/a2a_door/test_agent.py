"""An agent elsewhere as a member of a team: its task goes on when the member's process is killed, and when the door is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from a2a.types import ListTasksRequest
from starlette.responses import JSONResponse, PlainTextResponse

from callboard.agents import A2AAgent, AgentSettingError, RemoteAgentUnreachableError, RemoteTaskError
from callboard.broker.errors import is_outage
from callboard.core.cancellation import CancellationToken
from callboard.messages import TextMessage
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import TeamClient
from callboard.teams.errors import TeamRunError
from tests.helpers.a2a_clients import client, state
from tests.helpers.door_processes import DoorProcesses
from tests.helpers.eventually import eventually
from tests.helpers.loopback import LoopbackServer
from tests.helpers.processes import Process, python
from tests.helpers.remote_team import app
from tests.helpers.servers import ServerProcess
from tests.helpers.talking_team import WORDS
from tests.helpers.worker_fleet import SHORT_LEASE

from .test_messages import has_worker

TARGET = "tests.helpers.remote_team:app"


class Here:
    """The namespace of the team, and its workers; the agent elsewhere is in another one."""

    def __init__(self, url: str) -> None:
        self.options = ["--url", url, "--namespace", f"a2a-here-{os.urandom(4).hex()}"]
        self.runtime = RedisAgentRuntime.from_app(app, url, namespace=self.options[-1], types=())
        self._workers: list[Process] = []

    def worker(self, door: str) -> Process:
        environ = {**SHORT_LEASE, "ELSEWHERE": door}
        process = Process(python("-m", "callboard", "worker", TARGET, *self.options), environ)
        self._workers.append(process)
        return process

    def close(self) -> None:
        for worker in self._workers:
            worker.close()


@pytest.fixture
async def here(shared_server: ServerProcess) -> AsyncIterator[Here]:
    made = Here(shared_server.url)
    yield made
    made.close()
    await made.runtime.close()


async def test_a_task_is_begun_once_and_waited_for_by_whoever_lives(
    doors: DoorProcesses, here: Here, tmp_path: Path
) -> None:
    _, door = await doors.open()
    async with client(door, "words") as ada:
        await has_worker(ada)
        before = len((await ada.list_tasks(ListTasksRequest())).tasks)
        worker, gate = here.worker(door), tmp_path / "gate"
        run = asyncio.ensure_future(TeamClient(here.runtime, "words", "c").run(task=f"Wait {gate}"))

        async def working() -> int:
            tasks = (await ada.list_tasks(ListTasksRequest())).tasks
            return sum(state(one) == "WORKING" for one in tasks)

        assert await eventually(working, 30, what=worker.output) == 1
        worker.kill()
        gate.touch()
        other = here.worker(door)
        result = await asyncio.wait_for(run, 60)
        assert [one.to_text() for one in result.messages[1:]] == [WORDS], other.output()
        assert len((await ada.list_tasks(ListTasksRequest())).tasks) == before + 1


async def test_a_door_that_is_away_is_waited_for(doors: DoorProcesses, here: Here, tmp_path: Path) -> None:
    first, door = await doors.open()
    async with client(door, "words") as ada:
        await has_worker(ada)
    gate = tmp_path / "gate"
    worker = here.worker(door)
    run = asyncio.ensure_future(TeamClient(here.runtime, "words", "d").run(task=f"Wait {gate}"))
    async with client(door, "words") as ada:

        async def working() -> bool:
            return any(state(one) == "WORKING" for one in (await ada.list_tasks(ListTasksRequest())).tasks)

        await eventually(working, 30, what=worker.output)
    first.kill()
    gate.touch()
    await doors.open(int(door.rpartition(":")[2]))
    result = await asyncio.wait_for(run, 60)
    assert result.messages[-1].to_text() == WORDS


async def test_a_conversation_goes_on_there_and_a_question_is_answered_by_the_next_task(
    doors: DoorProcesses, here: Here
) -> None:
    _, door = await doors.open()
    async with client(door, "echo") as ada:
        await has_worker(ada)
    here.worker(door)
    echo, support = TeamClient(here.runtime, "echo", "c"), TeamClient(here.runtime, "support", "c")
    assert (await echo.run(task="One.")).messages[-1].to_text() == "One."
    assert (await echo.run(task="Two.")).messages[-1].to_text() == "One.|One.|Two."
    asked = (await support.run(task="Help.")).messages[-1].to_text()
    assert asked == "Which order? [a text]"
    assert (await support.run(task="42")).messages[-1].to_text() == "You said 42."


async def test_what_goes_wrong_there_is_said_here(doors: DoorProcesses, here: Here) -> None:
    _, door = await doors.open()
    async with client(door, "echo") as ada:
        await has_worker(ada)
    here.worker(door)
    for team, said in (("broken", "the model is out of order"), ("refused", "401")):
        with pytest.raises(TeamRunError, match=said):
            await TeamClient(here.runtime, team, "c").run(task="Hello.")


# Without a server of ours


async def test_it_works_alone_and_its_task_is_cancelled_with_it(doors: DoorProcesses, tmp_path: Path) -> None:
    _, door = await doors.open()
    async with client(door, "words") as ada:
        await has_worker(ada)
        agent = A2AAgent("there", f"{door}/a2a/words", token="ada", binding="HTTP+JSON")
        assert (await agent.run(task="Hello.")).messages[-1].to_text() == WORDS
        token = CancellationToken()
        task = [TextMessage(content=f"Wait {tmp_path / 'never'}", source="user")]
        waiting = asyncio.ensure_future(agent.on_messages(task, token))

        async def newest() -> str:
            return state((await ada.list_tasks(ListTasksRequest(page_size=1))).tasks[0])

        async def is_working() -> bool:
            return await newest() == "WORKING"

        await eventually(is_working, 20)
        token.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await newest() == "CANCELED"
        state_of = await agent.save_state()
        other = A2AAgent("there", f"{door}/a2a/words", token="ada")
        await other.load_state(state_of)
        assert await other.save_state() == state_of


class Elsewhere:
    """An agent with a card that says where else it is, and the requests that came to it."""

    def __init__(self, url: str) -> None:
        self.asked: list[str] = []
        interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        self._card = {"name": "x", "supportedInterfaces": [interface]}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.asked.append(scope["path"])
            await JSONResponse(self._card)(scope, receive, send)


async def test_a_card_leads_to_no_other_host() -> None:
    thief = Elsewhere("")
    async with LoopbackServer(thief) as taken:
        honest = Elsewhere(f"http://127.0.0.1:{taken.port}/")
        async with LoopbackServer(honest) as asked:
            agent = A2AAgent("there", f"http://127.0.0.1:{asked.port}", token="secret")
            with pytest.raises(AgentSettingError, match="no address of its own host") as caught:
                await agent.run(task="Hello.")
    assert honest.asked == ["/.well-known/agent-card.json"]
    assert thief.asked == []
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["ftp://x.example", "x.example", "https://", "https://ada:secret@x.example"])
def test_an_address_that_is_none_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(AgentSettingError, match="no address of an agent") as caught:
        A2AAgent("there", url)
    assert "secret" not in str(caught.value)


async def test_one_that_is_away_is_an_outage_and_one_that_is_no_agent_is_none() -> None:
    async with LoopbackServer(JSONResponse({"no": "card"})) as server:
        here = f"http://127.0.0.1:{server.port}"
        with pytest.raises(AgentSettingError, match="no address of its own host"):
            await A2AAgent("there", here).run(task="Hello.")
    async with LoopbackServer(PlainTextResponse("no card")) as server:
        with pytest.raises(RemoteTaskError):
            await A2AAgent("there", f"http://127.0.0.1:{server.port}").run(task="Hello.")
    with pytest.raises(RemoteAgentUnreachableError) as caught:
        await A2AAgent("there", here).run(task="Hello.")
    assert is_outage(caught.value)
