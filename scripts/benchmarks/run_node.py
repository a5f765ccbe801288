"""A process that takes part in the runs that are measured: `python -m scripts.benchmarks.run_node URL NAMESPACE`."""

from __future__ import annotations

import asyncio
import sys

from callboard.cli.sessions import run
from callboard.process import frozen
from callboard.runtime.runtime import RedisAgentRuntime

from .run_app import app


async def work(url: str, namespace: str) -> None:
    """Works until its input ends."""
    async with RedisAgentRuntime.from_app(app, url, namespace=namespace) as runtime:
        with frozen():  # as `callboard worker` does
            runtime.start()
            await runtime.ready()
            print("ready", flush=True)
            await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    run(work(*sys.argv[1:]))
