"""NATS JetStream with durable consumers and a stream in memory: one process publishes, another one handles.

A publish is over when the stream has it. A handled message is acknowledged without waiting for the server's answer, as
the client does unless it is told otherwise. Requests are left out: those of NATS are in no stream.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import nats
from nats.errors import TimeoutError as NothingCame
from nats.js.api import StorageType, StreamConfig
from pydantic import BaseModel

from scripts.benchmarks.peers.common import BODY, by_many, counts, said, show, start_worker

FAN = 10  # receivers of a fan-out
AT_A_TIME = 100  # messages that a receiver asks for


class Small(BaseModel):
    """Five fields."""

    number: int
    name: str
    ratio: float
    tags: list[str]
    text: str


class Left:
    """How many messages are still to come; 0 says when the last one was handled."""

    def __init__(self, count: int) -> None:
        self._count = count

    def less(self) -> None:
        self._count -= 1
        if not self._count:
            print(time.time(), flush=True)


async def _receive(stream: Any, receiver: int, left: Left) -> None:
    subscription = await stream.pull_subscribe("in", durable=f"receiver-{receiver}")
    while True:
        try:
            messages = await subscription.fetch(AT_A_TIME, timeout=1)
        except NothingCame:
            continue
        for message in messages:
            Small.model_validate_json(message.data)
            await message.ack()
            left.less()


async def work(url: str, receivers: int, count: int) -> None:
    """Handles until it is killed; so many receivers each get all that is published."""
    async with await nats.connect(url) as connection:
        stream = connection.jetstream()
        left = Left(receivers * count)
        async with asyncio.TaskGroup() as group:
            for receiver in range(receivers):
                group.create_task(_receive(stream, receiver, left))
            await asyncio.sleep(0)
            print("ready", flush=True)


async def _published(url: str, count: int, receivers: int) -> float:
    """Deliveries per second."""
    async with await nats.connect(url) as connection:
        stream = connection.jetstream()
        await stream.add_stream(StreamConfig(name="in", subjects=["in"], storage=StorageType.MEMORY))
        worker = start_worker(__file__, url, str(receivers), str(count))
        try:
            began = time.time()
            body = Small(**BODY)
            await by_many(count, lambda: stream.publish("in", body.model_dump_json().encode()))
            ended = float(await asyncio.to_thread(said, worker))
            return receivers * count / (ended - began)
        finally:
            worker.kill()
            worker.wait()
            await stream.delete_stream("in")


async def measured(url: str, part: int) -> dict[str, float]:
    """All figures."""
    count, _, _ = counts(part)
    return {"handled": await _published(url, count, 1), "fan-out": await _published(url, count // FAN, FAN)}


if __name__ == "__main__":
    if sys.argv[2] == "worker":
        asyncio.run(work(sys.argv[1], int(sys.argv[3]), int(sys.argv[4])))
    else:
        show(asyncio.run(measured(sys.argv[1], int(sys.argv[2]))))
