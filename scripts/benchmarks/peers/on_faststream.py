"""FastStream on Redis Streams with a consumer group: one process publishes, another one handles."""

# pyright: reportMissingImports=false
from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from faststream import FastStream
from faststream.redis import RedisBroker, StreamSub
from pydantic import BaseModel

from scripts.benchmarks.peers.common import BODY, by_many, counts, requests, said, show, start_worker

ASKERS = 40  # each request takes two connections, of the hundred that its client makes


class Small(BaseModel):
    """Five fields."""

    number: int
    name: str
    ratio: float
    tags: list[str]
    text: str


async def work(url: str) -> None:
    """Handles; a message with a negative number says how many came before it."""
    broker = RedisBroker(url, logger=None)
    seen = 0

    @broker.subscriber(stream=StreamSub("in", group="group", consumer="me"))
    async def on_small(message: Small) -> None:
        nonlocal seen
        seen += 1
        if message.number < 0 and seen > -message.number:
            print(time.time(), flush=True)

    @broker.subscriber(stream=StreamSub("asked", group="group", consumer="me"))
    async def on_question(message: Small) -> dict[str, Any]:
        return {"number": message.number}

    app = FastStream(broker, logger=None)

    @app.after_startup
    async def ready() -> None:
        print("ready", flush=True)

    await app.run()


async def measured(url: str, part: int) -> dict[str, float]:
    """All figures."""
    count, alone, in_flight = counts(part)
    worker = start_worker(__file__, url)
    try:
        async with RedisBroker(url, logger=None) as broker:
            began = time.time()
            await by_many(count, lambda: broker.publish(Small(**BODY), stream="in"))
            await broker.publish(Small(**{**BODY, "number": -count}), stream="in")
            ended = float(await asyncio.to_thread(said, worker))
            figures = {"handled": count / (ended - began)}

            async def ask() -> None:
                await broker.request(Small(**BODY), stream="asked", timeout=30)

            return figures | await requests(alone, in_flight // 5, ask, ASKERS)
    finally:
        worker.kill()
        worker.wait()


if __name__ == "__main__":
    if sys.argv[2] == "worker":
        asyncio.run(work(sys.argv[1]))
    else:
        show(asyncio.run(measured(sys.argv[1], int(sys.argv[2]))))
