"""A process of a team that is measured: `python -m scripts.benchmarks.team_node URL NAMESPACE TYPE`."""

from __future__ import annotations

import asyncio
import sys

from callboard.cli.sessions import run
from callboard.process import frozen
from callboard.runtime.runtime import RedisAgentRuntime

from .team_app import app


async def work(url: str, namespace: str, agent_type: str) -> None:
    """Works until its input ends."""
    async with RedisAgentRuntime.from_app(app, url, namespace=namespace, types=[agent_type]) as runtime:
        with frozen():  # as `callboard worker` does
            runtime.start()
            await runtime.ready()
            print("ready", flush=True)
            await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    run(work(*sys.argv[1:]))
