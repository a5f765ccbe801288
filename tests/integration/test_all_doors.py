"""One run through all doors at once, while doors and a worker are killed: everybody has all of it, once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import openai
import pytest
from a2a.client.errors import A2AClientError
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client

from tests.helpers import a2a_clients as a2a
from tests.helpers.door_processes import DoorProcesses
from tests.helpers.eventually import eventually
from tests.helpers.openai_clients import Place
from tests.helpers.processes import Process
from tests.helpers.reported_team import DRAFT, REPORT
from tests.helpers.servers import ServerProcess

TARGET = "tests.helpers.reported_team:app"
FIRST_WORDS = "What was asked"


@pytest.fixture
def place(shared_server: ServerProcess) -> Iterator[Place]:
    made = Place(shared_server.url, TARGET)
    yield made
    made.worker.close()


class Door:
    """The door that stands open now.

    Args:
        doors: All of them.
    """

    def __init__(self, doors: DoorProcesses) -> None:
        self.address = ""
        self._doors, self._process = doors, list[Process]()

    async def open(self) -> None:
        process, self.address = await self._doors.open()
        self._process.append(process)

    async def replace(self) -> None:
        """Kill -9, and another one opens elsewhere."""
        self._process.pop().kill()
        await self.open()


@pytest.fixture
async def door(place: Place, tmp_path: Path) -> AsyncIterator[Door]:
    made = DoorProcesses(TARGET, place.options, tmp_path)
    door = Door(made)
    await door.open()
    yield door
    made.close()


class OfEvents:
    """Server-sent events of `/api/v1`."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.text, self.is_asked, self.is_over = "", False, False
        self.said: list[str] = []

    async def read(self, address: str, run: str) -> None:
        headers = {"Authorization": "Bearer ada"}
        if self.numbers:
            headers["Last-Event-ID"] = str(self.numbers[-1])
        async with (
            httpx.AsyncClient(headers=headers, timeout=30) as http,
            http.stream("GET", f"{address}/api/v1/runs/{run}/events?drafts=1") as stream,
        ):
            kind = ""
            async for line in stream.aiter_lines():
                if line.startswith("id: "):
                    self.numbers.append(int(line[4:]))
                elif line.startswith("event: "):
                    kind = line[7:]
                elif line.startswith("data: "):
                    self._take(kind, json.loads(line[6:]))

    def _take(self, kind: str, told: dict[str, Any]) -> None:
        if kind == "stream" and told["is_draft"]:
            self.text += told["content"]
        elif kind == "agent_message":
            self.said.append(told["message"]["text"])
            self.text = ""
        self.is_asked = self.is_asked or kind == "async_input_request"
        self.is_over = self.is_over or kind == "completed"


class OfTask:
    """A2A: a task, and who subscribes to it."""

    def __init__(self) -> None:
        self._reader = a2a.Reader()

    @property
    def numbers(self) -> list[int]:
        return self._reader.numbers

    @property
    def text(self) -> str:
        return self._reader.text

    @property
    def is_asked(self) -> bool:
        return "INPUT_REQUIRED" in self._reader.states

    @property
    def is_over(self) -> bool:
        return "COMPLETED" in self._reader.states

    async def read(self, address: str, run: str) -> None:
        last = str(self.numbers[-1]) if self.numbers else ""
        async with a2a.client(address, "report") as client:
            async for one in a2a.subscribe(client, run, last):
                self._reader.take(one)


class OfResponses:
    """OpenAI's API: a response, and the next one behind the question."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.text, self.is_asked, self.is_over = "", False, False
        self._response, self._place = "", -1

    async def read(self, address: str, run: str) -> None:
        name = self._response or f"resp_{run}"
        async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="ada", max_retries=0) as client:
            more: dict[str, Any] = {} if self._place < 0 else {"starting_after": self._place}
            async for event in await client.responses.retrieve(name, stream=True, **more):
                self._take(event)

    def _take(self, event: Any) -> None:
        self._place = event.sequence_number
        self.numbers.append(event.sequence_number)
        if event.type == "response.output_text.delta":
            self.text += event.delta
        elif event.type == "response.completed":
            last = event.response.output[-1]
            if last.type == "function_call":
                self.is_asked = True
                self._response = json.loads(last.arguments)["response"]
                self._place, self.text = -1, ""
                self.numbers.clear()  # a response of its own has its own numbers
            else:
                assert self.text == "".join(item.content[0].text for item in event.response.output)
                self.text, self.is_over = last.content[0].text, True


Watcher = OfEvents | OfTask | OfResponses
"""One who reads a run until the stream ends or breaks: the numbers that it got, the text that is being written."""

BREAKS = (httpx.HTTPError, openai.APIError, A2AClientError)


async def watch(door: Door, run: str, watcher: Watcher) -> None:
    """Read on at the next door, whenever one breaks off."""
    while not watcher.is_over:
        try:
            await watcher.read(door.address, run)
        except BREAKS:
            await asyncio.sleep(0.1)


@asynccontextmanager
async def tools(door: Door) -> AsyncIterator[McpClient]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": "Bearer ada"}, timeout=30) as http,
        McpClient(streamable_http_client(f"{door.address}/mcp", http_client=http)) as client,
    ):
        yield client


async def begun(door: Door, task: str) -> str:
    """The id of a run that is begun in the background, as soon as there is a worker."""
    found: list[str] = []
    async with openai.AsyncOpenAI(base_url=f"{door.address}/v1", api_key="ada", max_retries=0) as client:

        async def is_begun() -> bool:
            try:
                made = await client.responses.create(model="report", input=task, background=True)
            except openai.InternalServerError as error:
                if "no worker" not in str(error):
                    raise
                return False
            found.append(made.id.removeprefix("resp_"))
            return True

        await eventually(is_begun, 30)
    return found[0]


async def test_a_run_is_begun_watched_and_answered_through_all_doors_while_processes_die(
    place: Place, door: Door, tmp_path: Path
) -> None:
    folder = tmp_path / "gates"
    folder.mkdir()
    run = await begun(door, str(folder))
    events, task, response = watchers = (OfEvents(), OfTask(), OfResponses())
    async with AsyncExitStack() as stack:
        reading = [asyncio.create_task(watch(door, run, one)) for one in watchers]
        for task_of in reading:
            stack.callback(task_of.cancel)
        # In the middle of the first message.
        await eventually(lambda: all(one.text == FIRST_WORDS for one in watchers), 20)
        await door.replace()
        (folder / "ann").touch()
        await eventually(lambda: all(one.is_asked for one in watchers), 20)
        # While somebody is asked.
        place.worker.close()  # kill -9
        place.worker = place.another()
        await door.replace()
        async with tools(door) as client:
            shown = await client.call_tool("callboard_run", {"run": run, "wait": 0})
            assert shown.structured_content is not None
            [question] = shown.structured_content["questions"]
            given = {"question": question["id"], "answer": "Go on."}
            assert not (await client.call_tool("callboard_answer", given)).is_error
            (folder / "bob").touch()
            ended = await client.call_tool("callboard_run", {"run": run, "wait": 30})
        await asyncio.wait_for(asyncio.gather(*reading), 20)
    assert ended.structured_content is not None
    texts = (ended.structured_content["text"], events.said[-1], task.text, response.text)
    assert set(texts) == {REPORT}
    assert events.said == [str(folder), DRAFT, "Go on.", REPORT]
    for one in watchers:
        assert one.numbers == sorted(set(one.numbers))
    whole = OfEvents()
    await whole.read(door.address, run)
    assert (whole.said, set(whole.numbers) <= set(events.numbers)) == (events.said, True)
    assert (folder / "calls").read_text().split() == ["ann", "bob"]
