"""Tools for processes of their own: `python -m tests.helpers.tool_work URL NAMESPACE [TYPE...]` is a worker."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from pathlib import Path

from callboard import App, MessageContext
from callboard.process.worker import run_worker
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.tools import ToolAgent, tool


@tool
async def square(number: int, seconds: float = 0.0) -> int:
    """Squares a number, in its own time."""
    note("start", number)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        note("cancelled", number)
        raise
    note("end", number)
    return number * number


@tool
def broken() -> str:
    """Always fails."""
    raise LookupError("nothing there")


@tool
async def block(seconds: float) -> str:
    """Blocks its whole process."""
    time.sleep(seconds)  # noqa: ASYNC251
    return "done"


@tool
async def message_id(ctx: MessageContext) -> str:
    """The id of the message that asks for it."""
    return ctx.message_id


@tool
async def large() -> str:
    """More than a message holds."""
    return "x" * 2_000_000


TOOLS = [square, broken, block, message_id, large]
app = App("tools")
ToolAgent.declare(app, "tools", TOOLS, concurrency=50)
ToolAgent.declare(app, "limited", TOOLS, max_runtime=0.3)


def note(what: str, number: int) -> None:
    """Adds one line to the file that LEDGER names."""
    if ledger := os.environ.get("LEDGER"):
        with Path(ledger).open("ab", buffering=0) as file:
            file.write(f"{what} {number} {os.getpid()}\n".encode())


async def main(url: str, namespace: str, *types: str) -> None:
    """Works until it is told to stop."""
    runtime = RedisAgentRuntime.from_app(app, url, namespace=namespace, types=types or None)
    await run_worker(runtime, announce=lambda text: print(text, flush=True))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s", stream=sys.stdout)
    asyncio.run(main(*sys.argv[1:]))
