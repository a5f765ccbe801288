"""Measures runs: scripts/bench runs [--rounds N] [--autogen PYTHON].

How many runs end in a second, of 500 that begin at once, whose agents take 20 ms for an answer: in two processes on the bus,
and beside that AutoGen's in one process, with nothing stored. And how fast the events of a run of 10,000 are read again, to
the text of each.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from callboard.broker import AgentId
from callboard.cli.sessions import run
from callboard.messages import TextMessage
from callboard.runs import a_attach, a_run, is_agent_message
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams.protocol import RunEnded, Shown, stream_of

from .run_app import TURNS, app, team
from .site import ROOT, Site

RUNS: Final = 500
EVENTS: Final = 10_000
AT_ONCE: Final = 100  # events that are written together
AUTOGEN: Final = ROOT / ".venv-interop" / "bin" / "python"


def main() -> int:
    """Runs the measurements; returns the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/bench runs", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds of each, default 3")
    parser.add_argument("--autogen", type=Path, default=AUTOGEN, metavar="PYTHON", help="one with AutoGen")
    options = parser.parse_args()
    rows: dict[str, list[float]] = {}
    with Site() as site:
        for number in range(options.rounds):
            print(f"round {number + 1}", file=sys.stderr, flush=True)
            for name, value in {**finished(site), **replayed(site), **autogen(options.autogen)}.items():
                rows.setdefault(name, []).append(value)
    for name, values in rows.items():
        print(f"{name:58} {statistics.median(values):10.1f}   ({min(values):.1f} to {max(values):.1f})")
    return 0


def finished(site: Site) -> dict[str, float]:
    """Many runs at once, in two processes."""
    with site.fresh() as namespace:
        nodes = [site.spawn("run_node", site.url, namespace) for _ in range(2)]
        for node in nodes:
            node.wait_ready()

        async def work() -> float:
            async with RedisAgentRuntime.from_app(app, site.url, namespace=namespace, types=()) as runtime:
                begun = time.perf_counter()
                await asyncio.gather(*(one(runtime, number) for number in range(RUNS)))
                return time.perf_counter() - begun

        return {f"{RUNS} runs of {TURNS} turns at once: runs a second": RUNS / run(work())}


async def one(runtime: RedisAgentRuntime, number: int) -> None:
    """One run, whose messages have to be its own."""
    response = await a_run(team, message=f"task {number}", runtime=runtime)
    said = [message["text"] for message in await response.messages]
    if said != [f"task {number}", *[f"heard task {number}"] * TURNS]:
        raise AssertionError(f"run {number} has other messages: {said}")


def replayed(site: Site) -> dict[str, float]:
    """The events of a long run, read again."""
    with site.fresh() as namespace:

        async def work() -> float:
            async with RedisAgentRuntime(site.url, namespace=namespace) as runtime:
                stream = stream_of(AgentId("team", "conversation"), "long")
                for first in range(0, EVENTS, AT_ONCE):
                    await runtime.write_run(stream, [shown(first + place) for place in range(AT_ONCE)])
                await runtime.write_run(stream, [RunEnded(state="completed")])
                response = await a_attach(runtime, "long", team="team", conversation="conversation")
                begun, count, size = time.perf_counter(), 0, 0
                async for event in response.events:
                    count += 1
                    if is_agent_message(event):
                        size += len(event.message["content"])
                return count / (time.perf_counter() - begun) if size else 0

        return {f"{EVENTS} events read again: events a second": run(work())}


def shown(number: int) -> Shown:
    """An entry of the run's stream, as a turn writes it."""
    said: list[Any] = [TextMessage(content=f"message {number}", source="agent")]
    return Shown(turn=(number,), source="agent", attempt="", messages=said, is_final=True)


def autogen(python: Path) -> dict[str, float]:
    """As many runs on AutoGen; nothing where it is not installed."""
    if not python.exists():
        return {}
    command = [str(python), "-m", "scripts.benchmarks.autogen_runs", str(RUNS), str(TURNS)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {"AutoGen, one process, nothing stored: runs a second": float(found.stdout)}


if __name__ == "__main__":
    sys.exit(main())
