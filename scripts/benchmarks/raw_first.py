"""The yardstick of a worker's start: takes one message from a stream, with what a worker is made of and nothing of ours.

Run as a script, `python raw_first.py URL STREAM`, so that the package is not imported.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgpack
import redis.asyncio as redis
import uvloop
from pydantic import BaseModel


class Small(BaseModel):
    """Five fields, as in messages.py."""

    number: int
    name: str
    ratio: float
    tags: list[str]
    text: str


async def first(url: str, stream: str) -> None:
    """Reads, decodes and acknowledges one message."""
    client: Any = redis.Redis.from_url(url)
    ((_, ((entry_id, fields),)),) = await client.xreadgroup("group", "me", {stream: ">"}, count=1, block=1000)
    Small.model_validate(msgpack.unpackb(fields[b"d"]))
    await client.xack(stream, "group", entry_id)
    await client.aclose()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(first(*sys.argv[1:]))
