"""The yardstick: what redis-py, msgpack and pydantic alone reach on the same server.

Batched XADD, XREADGROUP and XACK in a loop, without order per key, fencing, retries or dead letters. Roles and protocol
as in node.py.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

import msgpack
import redis.asyncio as redis

from callboard.cli.sessions import run

from .messages import Small, small

BATCH = 100


async def _begin() -> None:
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


def _encode(number: int) -> dict[str, bytes]:
    body = small(number).model_dump()
    head = {"id": f"{number:016x}", "type": "Small", "key": f"key-{number % 10_000}", "at": 1_763_700_000_000}
    return {"d": msgpack.packb({**head, "body": body})}


def _decode(fields: dict[bytes, bytes]) -> tuple[dict[str, Any], Small]:
    envelope = msgpack.unpackb(fields[b"d"])
    return envelope, Small.model_validate(envelope["body"])


async def _handle(message: Small) -> None:
    """A trivial handler."""


def _streams(named: str) -> list[str]:
    """One stream, or for `<name>*<n>` `<name>-0` and so on."""
    name, _, many = named.partition("*")
    return [f"{name}-{i}" for i in range(int(many))] if many else [name]


async def producer(url: str, named: str, count: str) -> None:
    """Adds messages in batches, to one stream or to several in turn."""
    client: Any = redis.Redis.from_url(url)
    streams = _streams(named)
    await client.ping()
    await _begin()
    began = time.time()
    for start in range(0, int(count), BATCH):
        pipe = client.pipeline(transaction=False)
        for number in range(start, min(start + BATCH, int(count))):
            pipe.xadd(streams[number % len(streams)], _encode(number))
        await pipe.execute()
    print(json.dumps({"began": began, "took": time.time() - began}))
    await client.aclose()


async def consumer(url: str, named: str, count: str, target: str = "") -> None:
    """Reads of one stream or of several, decodes, handles, acknowledges; with `target` adds one message for each."""
    client: Any = redis.Redis.from_url(url)
    streams = dict.fromkeys(_streams(named), ">")
    for stream in streams:
        await client.xgroup_create(stream, "group", id="0", mkstream=True)
    await _begin()
    handled = 0
    while handled < int(count):
        got = await client.xreadgroup("group", "me", streams, count=max(1, BATCH // len(streams)), block=1000)
        handled += await _take(client, got, target)
    print(json.dumps({"ended": time.time()}))
    await client.aclose()


async def _take(client: Any, got: list[Any], target: str) -> int:
    pipe = client.pipeline(transaction=bool(target))
    for stream, entries in got:
        for _, fields in entries:
            envelope, message = _decode(fields)
            await _handle(message)
            if target:
                pipe.xadd(target, {"d": msgpack.packb({**envelope, "body": message.model_dump()})})
        pipe.xack(stream, "group", *(entry_id for entry_id, _ in entries))
    await pipe.execute()
    return sum(len(entries) for _, entries in got)


async def fan(url: str, stream: str, count: str, groups: str) -> None:
    """Several groups of one stream in one process."""
    client: Any = redis.Redis.from_url(url)
    names = [f"group-{i}" for i in range(int(groups))]
    for name in names:
        await client.xgroup_create(stream, name, id="0", mkstream=True)
    await _begin()
    handled = 0
    while handled < int(count) * len(names):
        for name in names:
            got = await client.xreadgroup(name, "me", {stream: ">"}, count=BATCH)
            for _, entries in got:
                for _, fields in entries:
                    await _handle(_decode(fields)[1])
                await client.xack(stream, name, *(entry_id for entry_id, _ in entries))
                handled += len(entries)
    print(json.dumps({"ended": time.time()}))
    await client.aclose()


async def server(url: str, stream: str) -> None:
    """Answers requests: reads a batch, writes replies and acknowledgements in one transaction."""
    client: Any = redis.Redis.from_url(url)
    await client.xgroup_create(stream, "group", id="0", mkstream=True)
    asyncio.get_running_loop().create_task(_serve(client, stream)).add_done_callback(
        lambda task: task.exception()
    )
    await _begin()
    os._exit(0)


async def _serve(client: Any, stream: str) -> None:
    while True:
        got = await client.xreadgroup("group", "me", {stream: ">"}, count=BATCH, block=1000)
        await _take(client, got, f"{stream}:replies")


async def asker(url: str, stream: str, count: str, in_flight: str) -> None:
    """Sends requests and matches replies by id."""
    client: Any = redis.Redis.from_url(url)
    reading: Any = redis.Redis.from_url(url)
    numbers = iter(range(int(count)))
    waiting: dict[str, asyncio.Future[Any]] = {}
    times: list[float] = []
    queue: list[dict[str, bytes]] = []
    wake = asyncio.Event()

    async def read() -> None:
        last = b"0"
        while True:
            for _, entries in await reading.xread({f"{stream}:replies": last}, count=BATCH, block=1000):
                last = entries[-1][0]
                for _, fields in entries:
                    envelope, message = _decode(fields)
                    waiting.pop(envelope["id"]).set_result(message)

    async def send() -> None:
        while True:
            await wake.wait()
            wake.clear()
            batch, queue[:] = list(queue), []
            pipe = client.pipeline(transaction=False)
            for fields in batch:
                pipe.xadd(stream, fields)
            await pipe.execute()

    async def ask() -> None:
        for number in numbers:
            began = time.perf_counter()
            future = waiting[f"{number:016x}"] = asyncio.get_running_loop().create_future()
            queue.append(_encode(number))
            wake.set()
            await future
            times.append(time.perf_counter() - began)

    background = asyncio.gather(read(), send())
    await _begin()
    began = time.time()
    await asyncio.gather(*(ask() for _ in range(int(in_flight))))
    print(json.dumps({"took": time.time() - began, "times": sorted(times)}), flush=True)
    background.cancel()
    os._exit(0)  # a blocking read of redis-py does not always end when it is cancelled


ROLES: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    "producer": producer,
    "consumer": consumer,
    "fan": fan,
    "server": server,
    "asker": asker,
}

if __name__ == "__main__":
    run(ROLES[sys.argv[1]](*sys.argv[2:]))
