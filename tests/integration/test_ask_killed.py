"""Handlers wait for answers while every process dies, and go on where they were."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from callboard import AgentId, InputAnsweredError, TopicId
from callboard.runtime.runtime import RedisAgentRuntime
from tests.helpers.ask_work import Trip, app
from tests.helpers.eventually import eventually
from tests.helpers.processes import Process, python
from tests.helpers.runtimes import end
from tests.helpers.servers import ServerProcess
from tests.helpers.worker_fleet import SHORT_LEASE

WINDOW = 1.0  # seconds that a record is kept after the last one: a day, in a hurry


class AskingFleetFixture:
    """A namespace, who answers in this process, and workers in processes of their own."""

    def __init__(self, url: str, ledger: Path) -> None:
        self._url, self._ledger = url, ledger
        self._namespace = f"asking-{os.urandom(4).hex()}"
        self.runtime = RedisAgentRuntime.from_app(app, url, namespace=self._namespace, types=())
        self.processes: list[Process] = []

    async def worker(self) -> Process:
        command = python("-m", "tests.helpers.ask_work", self._url, self._namespace)
        environ = {"LEDGER": str(self._ledger), "CALLBOARD_DEDUPE_WINDOW": str(WINDOW)}
        process = Process(command, {**SHORT_LEASE, **environ})
        self.processes.append(process)
        await process.says("works as", within=60)
        return process

    async def waits(self, key: str) -> str:
        """Until the handler of this agent has ended to wait; returns the id of its question."""

        async def is_suspended() -> Any:
            return await self.command("HGET", "suspended:planner", key)

        await eventually(is_suspended)
        (request,) = await self.runtime.inputs.list(agent=AgentId("planner", key))
        return request.id

    async def command(self, name: str, suffix: str, *arguments: Any) -> Any:
        transport = self.runtime.transport
        return await transport.admin.command(name, transport.keys.of(suffix), *arguments)

    async def window_passes(self) -> None:
        """Twice as long as a record is kept."""
        await self.command("SET", "store:canary", "x", "PX", int(2000 * WINDOW))

        async def is_over() -> bool:
            return bool(await self.command("EXISTS", "store:canary") == 0)

        await eventually(is_over)

    def booked(self) -> Counter[str]:
        """How often each place was booked."""
        return Counter(line.removeprefix("book ") for line in self._ledger.read_text().splitlines())

    async def trips(self, key: str) -> list[Any]:
        found = await self.runtime.agent_save_state(AgentId("booked", key))
        return list(found.get("trips", []))

    async def close(self) -> None:
        await end(self.runtime, self.processes)


@pytest.fixture
async def fleet(shared_server: ServerProcess, tmp_path: Path) -> AsyncIterator[AskingFleetFixture]:
    made = AskingFleetFixture(shared_server.url, tmp_path / "ledger")
    await made.runtime.open()
    yield made
    await made.close()


async def test_a_day_after_every_process_was_killed_the_answer_arrives(fleet: AskingFleetFixture) -> None:
    """A tool among three that are called at once asks a person; the two others are not called again."""
    first = await fleet.worker()
    await fleet.runtime.publish_message(Trip(), TopicId("trips", "ada"))
    question = await fleet.waits("ada")
    assert await fleet.command("HGET", "busy:planner", "ada") == b"", "a worker holds it"
    first.kill()
    await fleet.window_passes()
    await fleet.runtime.inputs.answer(question, "no", by="ada")
    await fleet.window_passes()
    await fleet.worker()

    async def has_ended() -> bool:
        return bool(await fleet.trips("ada"))

    await eventually(has_ended)
    assert await fleet.trips("ada") == [{"number": 0, "told": ["Oslo", "Rome: no", "Bern"]}]
    assert fleet.booked() == {"Oslo": 1, "Rome": 2, "Bern": 1}


async def test_workers_are_killed_while_handlers_ask_and_people_answer(fleet: AskingFleetFixture) -> None:
    """Nothing is lost or done twice in effect, and each agent keeps its order."""
    chance = random.Random(11)
    keys, each = [f"k{number}" for number in range(8)], 4
    for number in range(each):
        for key in keys:
            await fleet.runtime.publish_message(Trip(number=number), TopicId("trips", key))
    workers = [await fleet.worker() for _ in range(2)]
    killed = 0

    async def answer_all() -> None:
        nonlocal killed
        answered = 0
        while answered < each * len(keys):
            requests = await fleet.runtime.inputs.list()
            for request in chance.sample(requests, min(3, len(requests))):
                try:
                    await fleet.runtime.inputs.answer(request.id, "yes")
                except InputAnsweredError:
                    continue
                answered += 1
            if answered > 7 * (killed + 1) and killed < 3:
                victim = chance.randrange(2)
                workers[victim].kill()
                workers[victim] = await fleet.worker()
                killed += 1
            await asyncio.sleep(0.02)

    await asyncio.wait_for(answer_all(), 60)

    async def trips() -> dict[str, list[int]]:
        return {key: [trip["number"] for trip in await fleet.trips(key)] for key in keys}

    async def are_all_there() -> bool:
        return all(len(found) >= each for found in (await trips()).values())

    await eventually(are_all_there, 30)
    assert await trips() == {key: list(range(each)) for key in keys}
    assert killed == 3
    assert await fleet.command("ZCARD", "inputs") == 0
