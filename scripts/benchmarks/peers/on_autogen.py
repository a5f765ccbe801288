"""AutoGen's runtime in memory: publishers and agents are one process, without a server and without durability."""

# pyright: reportMissingImports=false
from __future__ import annotations

import asyncio
import sys
import time

from autogen_core import (
    AgentId,
    DefaultTopicId,
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
    TypeSubscription,
    event,
    rpc,
)
from pydantic import BaseModel

from scripts.benchmarks.peers.common import BODY, by_many, counts, requests, show

KEYS, FAN = 100, 10


class Small(BaseModel):
    """Five fields."""

    number: int
    name: str
    ratio: float
    tags: list[str]
    text: str


class Question(Small):
    """The same as a request."""


class Sink(RoutedAgent):
    """Takes and forgets, or answers."""

    @event
    async def on_small(self, message: Small, ctx: MessageContext) -> None: ...

    @rpc
    async def on_question(self, message: Question, ctx: MessageContext) -> int:
        return message.number


async def measured(part: int) -> dict[str, float]:
    """All figures."""
    count, alone, in_flight = counts(part)
    figures = {"handled": await _published(count, 1), "fan-out": FAN * await _published(count // FAN, FAN)}
    runtime = SingleThreadedAgentRuntime()
    await Sink.register(runtime, "sink", lambda: Sink("sink"))
    runtime.start()
    keys = iter(range(10**9))

    async def ask() -> None:
        await runtime.send_message(Question(**BODY), AgentId("sink", f"key-{next(keys) % KEYS}"))

    figures |= await requests(alone, in_flight, ask)
    await runtime.stop()
    return figures


async def _published(count: int, types: int) -> float:
    """Messages per second."""
    runtime = SingleThreadedAgentRuntime()
    for number in range(types):
        await Sink.register(runtime, f"sink-{number}", lambda: Sink("sink"))
        await runtime.add_subscription(TypeSubscription("in", f"sink-{number}"))
    runtime.start()
    keys = iter(range(10**9))

    async def publish() -> None:
        await runtime.publish_message(Small(**BODY), DefaultTopicId("in", f"key-{next(keys) % KEYS}"))

    began = time.perf_counter()
    await by_many(count, publish)
    await runtime.stop_when_idle()
    return count / (time.perf_counter() - began)


if __name__ == "__main__":
    show(asyncio.run(measured(int(sys.argv[2]))))
