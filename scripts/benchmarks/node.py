"""The processes that are measured: `python -m scripts.benchmarks.node ROLE URL NAMESPACE ...`.

A process says `ready` on its output when it has started, waits for a line of input before it begins, and ends with one
line of JSON. A worker ends when its input does.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

from callboard import AgentId, App, TopicId
from callboard.broker import BrokerSettings
from callboard.cli.sessions import run
from callboard.process import frozen
from callboard.runtime.runtime import RedisAgentRuntime

from .messages import Small, app, sized, small, wide_app

PUBLISHERS = 100  # tasks that publish one message after another


async def _begin() -> None:
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


def _runtime(which: App, url: str, namespace: str, types: tuple[str, ...]) -> RedisAgentRuntime:
    settings = BrokerSettings(namespace=namespace, url=url)
    return RedisAgentRuntime.from_app(which, url, namespace=namespace, settings=settings, types=types)


async def worker(url: str, namespace: str, *types: str) -> None:
    """Works for these types until its input ends; `wide:<n>` is one type with n topics."""
    wide = types[0].startswith("wide:")
    which = wide_app(int(types[0].partition(":")[2])) if wide else app
    runtime = _runtime(which, url, namespace, ("sink",) if wide else types)
    with frozen():  # as `callboard worker` does
        async with runtime:
            runtime.start()
            await runtime.ready()
            await _begin()
    print(json.dumps({"handled": runtime.handled}))


async def publisher(url: str, namespace: str, topics: str, count: str, keys: str, size: str = "") -> None:
    """Publishes messages over many keys; `topics` is one, or `<name>*<n>` for `<name>-0` and so on.

    `size`: bytes of a message; "": small ones.
    """
    name, _, many = topics.partition("*")
    names = [f"{name}-{i}" for i in range(int(many))] if many else [name]

    def make(number: int) -> Small:
        return sized(number, int(size)) if size else small(number)

    numbers = iter(range(int(count)))
    sources = [TopicId(names[i % len(names)], f"key-{i % int(keys)}") for i in range(int(keys))]

    async def publish(runtime: RedisAgentRuntime) -> None:
        for number in numbers:
            await runtime.publish_message(make(number), sources[number % len(sources)])

    runtime = _runtime(app, url, namespace, ())
    async with runtime:
        await _begin()
        began = time.time()
        await asyncio.gather(*(publish(runtime) for _ in range(PUBLISHERS)))
        took = time.time() - began
    print(json.dumps({"began": began, "took": took}))


async def asker(url: str, namespace: str, count: str, in_flight: str) -> None:
    """Sends requests over 100 keys; measures each."""
    numbers = iter(range(int(count)))
    times: list[float] = []

    async def ask(runtime: RedisAgentRuntime) -> None:
        for number in numbers:
            began = time.perf_counter()
            await runtime.send_message(small(number), AgentId("answerer", f"key-{number % 100}"))
            times.append(time.perf_counter() - began)

    runtime = _runtime(app, url, namespace, ())
    async with runtime:
        await runtime.send_message(small(0), AgentId("answerer", "warm-up"))
        await _begin()
        began = time.time()
        await asyncio.gather(*(ask(runtime) for _ in range(int(in_flight))))
        took = time.time() - began
    print(json.dumps({"took": took, "times": sorted(times)}))


ROLES: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    "worker": worker,
    "publisher": publisher,
    "asker": asker,
}

if __name__ == "__main__":
    run(ROLES[sys.argv[1]](*sys.argv[2:]))
