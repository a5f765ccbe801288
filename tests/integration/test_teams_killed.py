"""A team whose manager and members are killed with -9, each once at every step of the turn loop.

Three assistants with a streamed model, a tool and a memory, each in a process of its own. The model is a real HTTP server,
whose answers depend on nothing but the request.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response

from callboard.agents import TaskResult
from callboard.messages import AttemptEndedEvent, BaseChatMessage, ModelClientStreamingChunkEvent
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import TeamClient
from callboard.teams.loop import FORK_STEPS, STEPS
from tests.helpers.eventually import eventually
from tests.helpers.openai_server import Answer, Asked, Call, OpenAIServer
from tests.helpers.processes import ROOT, Process, python
from tests.helpers.research_team import TURNS, app, team
from tests.helpers.servers import ServerProcess
from tests.helpers.worker_fleet import SHORT_LEASE

MANAGER = "research"
MEMBERS = ("research.planner", "research.writer", "research.critic")
OF_MEMBERS = ("member asked", "member answers")
DEATHS = [
    *(f"{MANAGER} {step}" for step in STEPS if step not in OF_MEMBERS),
    *(f"{member} {step}" for member in MEMBERS for step in OF_MEMBERS),
]


class Model:
    """Asks for a note first, and then says how long the conversation is: the same request gets the same answer."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()

    async def __call__(self, asked: Asked, server: OpenAIServer) -> Response:
        messages = asked.body["messages"]
        self.requests[json.dumps(messages, sort_keys=True)] += 1
        name, count = messages[0]["content"], len(messages)
        if messages[-1]["role"] != "tool":
            note = json.dumps({"text": f"{name} {count}"})
            return await Answer(calls=[Call("write_note", note, id=f"call_{count}")])(asked, server)
        return await Answer(f"{name} has read {count} messages")(asked, server)


class Fleet:
    """The processes of the team: whoever dies is started again."""

    def __init__(self, url: str, model: OpenAIServer, folder: Path) -> None:
        self.notes = folder / "notes.txt"
        self.deaths = folder / "deaths"
        self.deaths.mkdir()
        self._folder = folder
        self._environ = {
            **SHORT_LEASE,
            "CALLBOARD_MAX_ATTEMPTS": "20",
            "PYTHONPATH": str(ROOT),
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": model.url,
            "NOTES": str(self.notes),
            "DEATHS": str(self.deaths),
        }
        self._url = url
        self.namespace = f"research-{os.urandom(4).hex()}"
        self._processes: dict[str, Process] = {}
        self._dead: list[Process] = []

    def start(self, dies_at: list[str]) -> None:
        self._environ["DIES_AT"] = ",".join(dies_at)
        for agent_type in (MANAGER, *MEMBERS):
            self._start(agent_type)

    def _start(self, agent_type: str) -> None:
        target = "tests.helpers.research_team:app"
        command = python("-m", "callboard", "worker", target, "--type", agent_type)
        options = ["--url", self._url, "--namespace", self.namespace]
        self._processes[agent_type] = Process([*command, *options], self._environ, self._folder)

    async def keep_alive(self) -> None:
        while True:
            for agent_type, process in list(self._processes.items()):
                if not process.is_alive:
                    self._dead.append(process)
                    self._start(agent_type)
            await asyncio.sleep(0.02)

    def kill_all(self) -> None:
        for process in self._processes.values():
            process.kill()
            self._dead.append(process)

    def output(self) -> str:
        return "\n".join(process.output() for process in (*self._dead, *self._processes.values()))

    def close(self) -> None:
        for process in (*self._dead, *self._processes.values()):
            process.close()


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
async def fleet(shared_server: ServerProcess, model: Model, tmp_path: Path) -> AsyncIterator[Fleet]:
    with OpenAIServer() as server:
        server.default = model
        made = Fleet(shared_server.url, server, tmp_path)
        yield made
        made.close()


def expected() -> list[tuple[str, str]]:
    """Who says what in a run without kills: each hears two more messages with every round."""
    said = [("user", "go")]
    names = [member.removeprefix("research.") for member in MEMBERS]
    read = dict.fromkeys(names, 1)  # the system message
    unheard = {name: number + 1 for number, name in enumerate(names)}  # of the first round, the task included
    for turn in range(TURNS):
        name = names[turn % len(names)]
        # What is new and the memory, the call and its result; then its own answer.
        read[name] += unheard[name] + 1 + 2
        said.append((name, f"{name} has read {read[name]} messages"))
        read[name] += 1
        unheard[name] = len(names) - 1
    return said


def transcript(result: TaskResult) -> list[tuple[str, str]]:
    return [
        (message.source, message.to_text())
        for message in result.messages
        if isinstance(message, BaseChatMessage)
    ]


async def read(fleet: Fleet, url: str, **options: Any) -> list[Any]:
    """Everything that a reader of a new run sees."""
    async with RedisAgentRuntime.from_app(app, url, namespace=fleet.namespace, types=()) as runtime:
        stream = team.on(runtime, "c1").run_stream(task="go", **options)
        return [item async for item in stream]


def check(shown: list[Any], fleet: Fleet, model: Model, cut_off: int = 0) -> None:
    """What was said, and that nothing was paid twice but for requests that were cut off before their answer."""
    result = shown[-1]
    assert isinstance(result, TaskResult)
    assert transcript(result) == expected(), fleet.output()
    twice = [request[-300:] for request, count in model.requests.items() if count > 1]
    assert len(twice) <= cut_off, "an answer was paid for twice, though nothing had died in its request"
    assert len(model.requests) == 2 * TURNS
    notes = fleet.notes.read_text().splitlines()
    assert len(notes) == len(set(notes)) == TURNS


async def test_without_kills(fleet: Fleet, model: Model, shared_server: ServerProcess) -> None:
    fleet.start([])
    shown = await asyncio.wait_for(read(fleet, shared_server.url), 60)
    check(shown, fleet, model)
    assert not any(isinstance(item, AttemptEndedEvent) for item in shown)
    texts: dict[str | None, str] = defaultdict(str)
    for item in shown:
        if isinstance(item, ModelClientStreamingChunkEvent):
            texts[item.full_message_id] += item.content
    # A reader who is late sees the whole message in the place of the pieces that it has not read.
    assert texts
    assert all(any(whole.startswith(text) for _, whole in expected()) for text in texts.values())


@pytest.mark.slow
async def test_manager_and_members_are_killed_once_at_every_step(
    fleet: Fleet, model: Model, shared_server: ServerProcess
) -> None:
    fleet.start(DEATHS)
    alive = asyncio.ensure_future(fleet.keep_alive())
    try:
        shown = await asyncio.wait_for(read(fleet, shared_server.url), 240)
    finally:
        alive.cancel()
    assert len(list(fleet.deaths.iterdir())) == len(DEATHS), "somebody was not killed"
    check(shown, fleet, model)


@pytest.mark.slow
async def test_the_manager_is_killed_in_the_middle_of_a_fork(
    fleet: Fleet, shared_server: ServerProcess
) -> None:
    fleet.start([f"{MANAGER} {step}" for step in FORK_STEPS])
    alive = asyncio.ensure_future(fleet.keep_alive())
    try:
        async with RedisAgentRuntime.from_app(
            app, shared_server.url, namespace=fleet.namespace, types=()
        ) as runtime:
            sea = team.on(runtime, "c1")
            first = await asyncio.wait_for(sea.run(task="go"), 60)
            lake = await asyncio.wait_for(sea.fork("c2"), 60)
            here, there = await asyncio.gather(sea.run(task="more"), lake.run(task="more"))
    finally:
        alive.cancel()
    assert {path.name for path in fleet.deaths.iterdir()}, "nobody was killed"
    assert transcript(here) == transcript(there) != transcript(first)


@pytest.mark.slow
@pytest.mark.parametrize("now", [False, True], ids=["after-the-turn", "now"])
async def test_paused_and_with_everything_restarted_it_says_the_same(
    fleet: Fleet, model: Model, shared_server: ServerProcess, now: bool
) -> None:
    """The reader's process is another one afterwards as well."""
    fleet.start([])
    url, namespace = shared_server.url, fleet.namespace
    async with RedisAgentRuntime.from_app(app, url, namespace=namespace, types=()) as runtime:
        client = team.on(runtime, "c1")
        async for item in client.run_stream(task="go", run_id="run"):
            if isinstance(item, BaseChatMessage) and item.source == "writer":
                break
        assert await client.pause(now=now)
        await eventually(lambda: is_quiet(client, now), 20)
    fleet.kill_all()
    fleet.start([])
    async with RedisAgentRuntime.from_app(app, url, namespace=namespace, types=()) as runtime:
        client = team.on(runtime, "c1")
        assert (await client.status()).state == "paused"
        assert await client.resume()
        shown = [item async for item in client.follow("run")]
    check(shown, fleet, model, cut_off=int(now))


async def is_quiet(client: TeamClient, now: bool) -> bool:
    """Nobody is speaking any more: interrupted, or heard to the end."""
    status = await client.status()
    return status.state == "paused" and (now or status.is_held)
