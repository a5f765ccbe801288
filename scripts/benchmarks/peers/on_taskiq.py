"""taskiq on Redis Streams, with results in Redis: one process sends, another one works."""

# pyright: reportMissingImports=false
from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from pydantic import BaseModel
from taskiq.api import run_receiver_task
from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

from scripts.benchmarks.peers.common import BODY, by_many, counts, requests, said, show, start_worker

ASK_EVERY = 0.005  # seconds between two looks for a result; its own default is 0.2


class Small(BaseModel):
    """Five fields."""

    number: int
    name: str
    ratio: float
    tags: list[str]
    text: str


def made(url: str) -> tuple[Any, Any]:
    """The broker and its task."""
    broker: Any = RedisStreamBroker(url).with_result_backend(RedisAsyncResultBackend(url, result_ex_time=60))
    seen = 0

    @broker.task(task_name="small")
    async def on_small(message: Small) -> int:
        nonlocal seen
        seen += 1
        if message.number < 0 and seen > -message.number:
            print(time.time(), flush=True)
        return message.number

    return broker, on_small


async def work(url: str) -> None:
    """Works until it is killed."""
    broker, _ = made(url)
    broker.is_worker_process = True
    await broker.startup()
    print("ready", flush=True)
    await run_receiver_task(broker)


async def measured(url: str, part: int) -> dict[str, float]:
    """All figures."""
    count, alone, in_flight = counts(part)
    broker, task = made(url)
    await broker.startup()
    worker = start_worker(__file__, url)
    try:
        began = time.time()
        await by_many(count, lambda: task.kiq(Small(**BODY)))
        await task.kiq(Small(**{**BODY, "number": -count}))
        ended = float(await asyncio.to_thread(said, worker))

        async def ask() -> None:
            sent = await task.kiq(Small(**BODY))
            await sent.wait_result(check_interval=ASK_EVERY, timeout=30)

        return {"handled": count / (ended - began)} | await requests(alone, in_flight // 5, ask)
    finally:
        worker.kill()
        worker.wait()
        await broker.shutdown()


if __name__ == "__main__":
    if sys.argv[2] == "worker":
        asyncio.run(work(sys.argv[1]))
    else:
        show(asyncio.run(measured(sys.argv[1], int(sys.argv[2]))))
