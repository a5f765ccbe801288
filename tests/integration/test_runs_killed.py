"""Runs whose callers die, and many at once in two processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator

import pytest

from callboard import RedisAgentRuntime
from callboard.runs import AsyncRunResponse, a_attach, a_run
from tests.helpers.eventually import eventually
from tests.helpers.processes import Process, python
from tests.helpers.running_team import TASK, TURNS, app, team
from tests.helpers.servers import ServerProcess

RUNS = 25


@pytest.fixture(scope="module")
def namespace() -> str:
    return f"runs-{os.urandom(4).hex()}"


@pytest.fixture(scope="module")
def workers(shared_server: ServerProcess, namespace: str) -> Iterator[list[Process]]:
    """Two processes that run the manager and both agents."""
    options = ["--url", shared_server.url, "--namespace", namespace]
    command = python("-m", "callboard", "worker", "tests.helpers.running_team:app", *options)
    made = [Process(command) for _ in range(2)]
    yield made
    for process in made:
        process.close()


@pytest.fixture
async def runtime(
    shared_server: ServerProcess, namespace: str, workers: list[Process]
) -> AsyncIterator[RedisAgentRuntime]:
    made = RedisAgentRuntime.from_app(app, shared_server.url, namespace=namespace, types=[])
    await made.open()
    yield made
    await made.close()


def expected(task: str = TASK) -> list[str]:
    said = [task]
    for turn in range(TURNS):
        said.append(f"{said[-1]}|{turn // 2 + 1}")
    return said


async def test_a_run_goes_on_when_its_caller_is_killed_and_another_process_reads_all_of_it(
    shared_server: ServerProcess, runtime: RedisAgentRuntime
) -> None:
    command = python("-m", "tests.helpers.running_team", shared_server.url, runtime.settings.namespace or "")
    caller = Process([*command, "the-run"])
    try:
        await eventually(lambda: len(caller.lines()) >= 2, 20, what=caller.output)
        caller.kill()
        begun = [int(line.split()[0]) for line in caller.lines()]
        response = await a_attach(runtime, "the-run")
        result = await response.result()
        events = [event async for event in response.events]
    finally:
        caller.close()
    assert result.stop_reason == f"Maximum number of turns {TURNS} reached."
    assert [message["text"] for message in await response.messages] == expected()
    assert [event.number for event in events][: len(begun)] == begun
    assert len(begun) < len(events)


async def test_many_runs_at_once_in_two_processes_are_neither_mixed_nor_lost(
    runtime: RedisAgentRuntime, workers: list[Process]
) -> None:
    async def one(number: int) -> AsyncRunResponse:
        return await a_run(team, message=f"Task {number}", runtime=runtime)

    responses = await asyncio.gather(*map(one, range(RUNS)))
    said = await asyncio.gather(*(texts(response) for response in responses))
    assert said == [expected(f"Task {number}") for number in range(RUNS)]
    assert all(process.is_alive for process in workers)


async def texts(response: AsyncRunResponse) -> list[str]:
    return [message["text"] for message in await response.messages]
