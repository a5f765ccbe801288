"""One worker process of the fault tests: `python -m tests.helpers.work URL NAMESPACE [TYPE...]`."""

from __future__ import annotations

import asyncio
import logging
import sys

from callboard.process.worker import run_worker
from callboard.runtime.runtime import RedisAgentRuntime

from .jobs import app


async def main(url: str, namespace: str, *types: str) -> None:
    """Works until it is told to stop."""
    runtime = RedisAgentRuntime.from_app(
        app, url, namespace=namespace, types=types or None, exit_when_stuck=True
    )
    await run_worker(runtime, announce=lambda text: print(text, flush=True))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s", stream=sys.stdout)
    asyncio.run(main(*sys.argv[1:]))
