"""Measures teams: scripts/bench teams [--rounds N] [--autogen PYTHON].

Turns per second of three members with canned answers, in one process without a bus, on the bus in one process, and on the
bus with a process for the manager and each member; how that changes over 1,000 turns; 200 conversations at once; and how
long a piece of a streamed text takes from a member to a reader.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from callboard.agents import TaskResult
from callboard.cli.sessions import run
from callboard.messages import ModelClientStreamingChunkEvent, TextMessage
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import TeamClient

from .site import ROOT, Node, Site
from .team_app import NAMES, THINKING, app, canned

TURNS: Final = 1000
WINDOW: Final = 300  # turns over which processor time is measured, which is known by hundredths of a second
EARLY, LATE = 100, TURNS - WINDOW  # the turns with which two windows begin
MEASURED: Final = LATE + WINDOW - EARLY
LOOKS: Final = frozenset({EARLY, EARLY + WINDOW, LATE, LATE + WINDOW})
CONVERSATIONS: Final = 200
TURNS_OF_SLOW: Final = 6
AUTOGEN: Final = ROOT / ".venv-interop" / "bin" / "python"


def main() -> int:
    """Runs the measurements; returns the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/bench teams", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds of each, default 3")
    parser.add_argument(
        "--json", action="store_true", help="print JSON with every round instead of the table"
    )
    parser.add_argument(
        "--autogen",
        type=Path,
        default=AUTOGEN,
        metavar="PYTHON",
        help="a Python with autogen-agentchat; scripts/interop makes the default, .venv-interop",
    )
    options = parser.parse_args()
    rows: dict[str, list[float]] = {}
    with Site() as site:
        for number in range(options.rounds):
            for measure in MEASURES:
                print(f"{measure.__name__}: round {number + 1}", file=sys.stderr, flush=True)
                for name, value in measure(site).items():
                    rows.setdefault(name, []).append(value)
            for name, value in autogen(options.autogen).items():
                rows.setdefault(name, []).append(value)
    if options.json:
        print(json.dumps(rows, indent=2))
        return 0
    for name, values in rows.items():
        print(f"{name:58} {statistics.median(values):10.1f}   ({min(values):.1f} to {max(values):.1f})")
    return 0


def here(site: Site) -> dict[str, float]:
    """Without a bus."""
    team = canned(TURNS)
    return {"no bus, one process: turns a second": _rate(run(_timed(team.run(task="go"))), TURNS)}


def on_the_bus(site: Site) -> dict[str, float]:
    """With a bus, in one process."""
    with site.fresh() as namespace:

        async def work() -> float:
            runtime = RedisAgentRuntime.from_app(app, site.url, namespace=namespace)
            async with runtime:
                runtime.start()
                await runtime.ready()
                await TeamClient(runtime, "canned100").run(task="go")
                return await _timed(TeamClient(runtime, "canned1000").run(task="go"))

        return {"bus, one process: turns a second": _rate(run(work()), TURNS)}


def across_processes(site: Site) -> dict[str, float]:
    """With a bus, and four processes."""
    with _workers(site, "canned1000") as (namespace, nodes):
        started = [node.memory for node in nodes]
        times, spent = run(_with_client(site, namespace, partial(_times_of_turns, site, nodes)))
        grown = max(node.memory - before for node, before in zip(nodes, started, strict=True))
        early, late = (spent[turn + WINDOW] - spent[turn] for turn in (EARLY, LATE))
        sent = float(site.redis.info("stats")["total_net_input_bytes"])
        return {
            "bus, four processes: turns a second": len(times) / sum(times),
            "bus, four processes: processor time of a turn, ms": (spent[LATE + WINDOW] - spent[EARLY])
            / MEASURED
            * 1e3,
            "bus, four processes: processor time, late / early": late / early,
            "bus, four processes: growth of the largest process, MB": grown / 1e6,
            "bus, four processes: bytes to Redis a turn": sent / TURNS,
        }


def many_conversations(site: Site) -> dict[str, float]:
    """Members that take 20 ms, one conversation and 200 at once."""
    with _workers(site, "slow") as (namespace, _):

        async def work(runtime: RedisAgentRuntime) -> tuple[float, float]:
            alone = await _timed(TeamClient(runtime, "slow", "alone").run(task="go"))
            clients = [TeamClient(runtime, "slow", f"c{number}") for number in range(CONVERSATIONS)]
            begun = time.perf_counter()
            results = await asyncio.gather(*(client.run(task=client.conversation) for client in clients))
            took = time.perf_counter() - begun
            for client, result in zip(clients, results, strict=True):
                _check(client.conversation, result)
            return alone, took

        alone, together = run(_with_client(site, namespace, work))
        one, many = TURNS_OF_SLOW / alone, CONVERSATIONS * TURNS_OF_SLOW / together
        return {
            f"one conversation, {THINKING * 1000:.0f} ms a turn: turns a second": one,
            f"{CONVERSATIONS} conversations: turns a second": many,
            f"{CONVERSATIONS} conversations / one": many / one,
        }


def streaming(site: Site) -> dict[str, float]:
    """Pieces of a text, from a member in another process to the reader."""
    with _workers(site, "streamed") as (namespace, _):

        async def work(runtime: RedisAgentRuntime) -> list[float]:
            stream = TeamClient(runtime, "streamed").run_stream(task="go")
            return [
                time.time() - float(item.content)
                async for item in stream
                if isinstance(item, ModelClientStreamingChunkEvent)
            ]

        late = sorted(run(_with_client(site, namespace, work)))
        return {
            "piece of a text, member to reader: p50, ms": late[len(late) // 2] * 1000,
            "piece of a text, member to reader: the slowest, ms": late[-1] * 1000,
        }


MEASURES: Final = (here, on_the_bus, across_processes, many_conversations, streaming)


def autogen(python: Path) -> dict[str, float]:
    """The same team on AutoGen, in one process and with nothing stored; nothing where it is not installed."""
    if not python.exists():
        return {}
    found = subprocess.run(
        [python, "-m", "scripts.benchmarks.autogen_teams", "--own", str(TURNS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {"AutoGen, one process, nothing stored: turns a second": float(found.stdout)}


@contextmanager
def _workers(site: Site, team: str) -> Iterator[tuple[str, list[Node]]]:
    """A process for the manager and each member of a team, in an empty server."""
    types = [declared.type for declared in app if declared.type.split(".")[0] == team]
    with site.fresh() as namespace:
        nodes = [site.spawn("team_node", site.url, namespace, name) for name in types]
        for node in nodes:
            node.wait_ready()
        yield namespace, nodes


async def _with_client(
    site: Site, namespace: str, work: Callable[[RedisAgentRuntime], Coroutine[Any, Any, Any]]
) -> Any:
    async with RedisAgentRuntime.from_app(app, site.url, namespace=namespace, types=()) as runtime:
        return await work(runtime)


async def _times_of_turns(
    site: Site, nodes: Sequence[Node], runtime: RedisAgentRuntime
) -> tuple[list[float], dict[int, float]]:
    """How long each turn took; and the processor time of everybody so far, in seconds, at some turns."""
    last, times, spent = time.perf_counter(), [], {}
    async for item in TeamClient(runtime, "canned1000").run_stream(task="go"):
        if isinstance(item, TextMessage):
            now = time.perf_counter()
            times.append(now - last)
            last = now
            if len(times) in LOOKS:
                spent[len(times)] = time.process_time() + site.cpu() + sum(node.cpu for node in nodes)
                last = time.perf_counter()
    return times[1:], spent  # without the task


def _check(conversation: str, result: TaskResult) -> None:
    """Nothing of another conversation is in it."""
    sources = [message.source for message in result.messages]
    expected = ["user", *(NAMES[turn % len(NAMES)] for turn in range(TURNS_OF_SLOW))]
    if sources != expected or result.messages[0].to_text() != conversation:
        raise RuntimeError(f"the conversation {conversation} is mixed up: {sources}")


async def _timed(work: Coroutine[Any, Any, TaskResult]) -> float:
    begun = time.perf_counter()
    await work
    return time.perf_counter() - begun


def _rate(seconds: float, turns: int) -> float:
    return turns / seconds


if __name__ == "__main__":
    raise SystemExit(main())
