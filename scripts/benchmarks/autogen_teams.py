"""Turns per second of a team of AutoGen's: on its own runtime in memory, and on ours. `scripts/interop bench`."""

# pyright: reportMissingImports=false
from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from autogen_agentchat.agents import BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import SingleThreadedAgentRuntime

from callboard.interop.autogen import CallboardRuntime, SharedTeam
from tests.helpers.processes import Process, python
from tests.helpers.servers import ServerProcess

NAMES = ("ann", "bob", "cy")
WARM = 20  # turns before the clock starts


class Canned(BaseChatAgent):
    """Always says the same."""

    @property
    def produced_message_types(self) -> Sequence[type[Any]]:
        return (TextMessage,)

    async def on_messages(self, messages: Sequence[Any], cancellation_token: Any) -> Any:
        return Response(chat_message=TextMessage(content="so it is", source=self.name))

    async def on_reset(self, cancellation_token: Any) -> None:
        pass


def team_of(runtime: Any, turns: int) -> Any:
    """Three of them, who speak so many turns."""
    return RoundRobinGroupChat([Canned(name, name) for name in NAMES], max_turns=turns, runtime=runtime)


async def measured(make: Any, turns: int) -> float:
    """Turns per second, after a run that is not counted."""
    await make(WARM).run(task="Begin.")
    team = make(turns)
    begun = time.perf_counter()
    await team.run(task="Begin.")
    return float(turns / (time.perf_counter() - begun))


async def on_their_own(turns: int) -> float:
    """In memory, with AutoGen's runtime."""
    runtime = SingleThreadedAgentRuntime()
    runtime.start()
    return await measured(lambda count: team_of(runtime, count), turns)


async def in_one_process(url: str, turns: int, *, save_states: bool) -> float:
    """On ours, in one process."""
    runtime = CallboardRuntime(url, save_states=save_states)
    try:
        return await measured(lambda count: team_of(runtime, count), turns)
    finally:
        await runtime.close()


async def in_processes(url: str, turns: int) -> float:
    """On ours, with each member in a process of its own."""
    namespace = f"bench-{os.urandom(4).hex()}"
    with ExitStack() as ending:
        for name in NAMES:
            command = python(
                "-m", "scripts.benchmarks.autogen_teams", "--member", name, "--url", url, "--in", namespace
            )
            process = Process(command)
            ending.callback(process.close)
            await process.says("ready", within=60)
        runtime = CallboardRuntime(url, namespace=namespace)
        try:
            team = team_of(runtime, turns)
            SharedTeam(team, "bench").lead()
            begun = time.perf_counter()
            await team.run(task="Begin.")
            return turns / (time.perf_counter() - begun)
        finally:
            await runtime.close()


async def host(url: str, namespace: str, member: str) -> None:
    """The process of a member."""
    shared = SharedTeam(team_of(CallboardRuntime(url, namespace=namespace), 1), "bench")
    await shared.host(member)
    print("ready", flush=True)
    await asyncio.get_running_loop().create_future()


async def main() -> None:
    """Prints a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=300)
    parser.add_argument(
        "--own", type=int, metavar="TURNS", help="only AutoGen's own runtime; prints the figure alone"
    )
    parser.add_argument("--member", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--in", dest="namespace", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.member:
        await host(given.url, given.namespace, given.member)
        return
    if given.own:
        print(await on_their_own(given.own))
        return
    turns = given.turns
    print(f"{turns} turns of three members, turns per second")
    print(f"AutoGen's runtime, in memory      {await on_their_own(turns):7.0f}")
    with ServerProcess() as server:
        print(
            f"ours, one process, no states      {await in_one_process(server.url, turns, save_states=False):7.0f}"
        )
        print(
            f"ours, one process                 {await in_one_process(server.url, turns, save_states=True):7.0f}"
        )
        print(f"ours, four processes              {await in_processes(server.url, turns):7.0f}")


if __name__ == "__main__":
    asyncio.run(main())
