"""A team whose members live in three other processes, one of which is killed."""

# pyright: reportMissingImports=false
from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.helpers.processes import Process, python

from .member import TURNS, made
from .teams import NAMES, transcript
from .test_teams import on_their_own

Start = Callable[..., Process]


@pytest.fixture
def start(url: str, namespace: str) -> Iterator[Start]:
    """Starts the process of a member."""
    with ExitStack() as ending:

        def begin(member: str, last_turn: int = 0) -> Process:
            command = python("-m", "tests.interop.member", url, namespace, member, str(last_turn))
            process = Process(command)
            ending.callback(process.close)
            return process

        yield begin


async def expected() -> list[tuple[str, str, str]]:
    from autogen_agentchat.teams import RoundRobinGroupChat

    from .member import Told

    (said,) = await on_their_own(
        lambda runtime: RoundRobinGroupChat([Told(name) for name in NAMES], max_turns=TURNS, runtime=runtime),
        "Begin.",
    )
    return said


async def test_a_team_survives_the_death_of_a_member_in_its_turn(
    url: str, namespace: str, start: Start
) -> None:
    processes = {name: start(name, 10 if name == "bob" else 0) for name in NAMES}
    for process in processes.values():
        await process.says("ready", within=30)
    team, shared = made(url, namespace)
    shared.lead()
    running = asyncio.create_task(team.run(task="Begin."))
    try:
        async with asyncio.timeout(90):
            await processes["bob"].says("stuck", within=60)
            processes["bob"].kill()
            processes["bob"] = start("bob")
            result = await running
    finally:
        running.cancel()
        await team._runtime.close()
    assert transcript(result) == await expected()
    assert len(processes["bob"].lines("bob speaks")) == TURNS // 3 - 9, "its last turn was taken again"


async def test_a_killed_member_remembers_what_it_heard(url: str, namespace: str, start: Start) -> None:
    """Killed between two runs: what it heard is stored with each message that it handled."""
    processes = {name: start(name) for name in NAMES}
    for process in processes.values():
        await process.says("ready", within=30)
    team, shared = made(url, namespace)
    shared.lead()
    try:
        async with asyncio.timeout(90):
            first = await team.run(task="Begin.")
            for name in NAMES:
                processes[name].kill()
                processes[name] = start(name)
            second = await team.run(task="And on.")
    finally:
        await team._runtime.close()
    heard = [int(message.to_text().split()[3].strip(",")) for message in second.messages[1:4]]
    assert len(first.messages) == TURNS + 1
    assert heard[0] > TURNS * 2 // 3, "the first speaker has heard the others of the first run"


async def test_a_member_that_is_not_there_is_named(url: str, namespace: str) -> None:
    from callboard.errors import UnknownNameError

    team, shared = made(url, namespace)
    with pytest.raises(UnknownNameError, match=r"'bo'\. Did you mean 'bob'"):
        shared.lead("bo")
    await team._runtime.close()


async def test_a_team_that_has_run_can_not_be_shared(url: str, namespace: str) -> None:
    from callboard.errors import MisuseError
    from callboard.interop.autogen import SharedTeam

    team, shared = made(url, namespace, turns=1)
    shared.lead(*NAMES)
    await team.run(task="Begin.")
    with pytest.raises(MisuseError):
        SharedTeam(team, "other")
    await team._runtime.close()


async def test_a_member_that_dies_again_and_again_ends_the_run(
    url: str, namespace: str, start: Start
) -> None:
    processes = {name: start(name, 1 if name == "bob" else 0) for name in NAMES}
    for process in processes.values():
        await process.says("ready", within=30)
    team, shared = made(url, namespace)
    shared.lead()
    running = asyncio.create_task(team.run(task="Begin."))
    try:
        async with asyncio.timeout(90):
            for _ in range(3):
                await processes["bob"].says("stuck", within=30)
                processes["bob"].kill()
                processes["bob"] = start("bob", 1)
            with pytest.raises(RuntimeError, match="can't take its turn"):
                await running
    finally:
        running.cancel()
        await team._runtime.close()
