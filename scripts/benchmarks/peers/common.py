"""What the programs of the peers share. They have nothing else of ours, only what is in their own folders."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

AT_ONCE = 100  # tasks that publish or ask
BODY: dict[str, Any] = {
    "number": 1,
    "name": "customer-00000001",
    "ratio": 0.25,
    "tags": ["new", "north"],
    "text": "x" * 110,
}
"""The message of our own rows, as plain data."""


def counts(part: int) -> tuple[int, int, int]:
    """How much is measured: messages, requests one at a time, requests in flight; `part`: 1, or 4 for a quarter."""
    return 10_000 // part, 1_000 // part, 5_000 // part


async def by_many(count: int, do: Callable[[], Awaitable[Any]], at_once: int = AT_ONCE) -> float:
    """Does it so often, by tasks at once; returns the seconds."""
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            await do()

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(at_once)))
    return time.perf_counter() - began


async def requests(
    alone: int, in_flight: int, ask: Callable[[], Awaitable[Any]], at_once: int = AT_ONCE
) -> dict[str, float]:
    """The figures of requests."""
    times = []
    for _ in range(alone):
        began = time.perf_counter()
        await ask()
        times.append(time.perf_counter() - began)
    took = await by_many(in_flight, ask, at_once)
    return {"request median ms": statistics.median(times) * 1e3, "requests": in_flight / took}


def start_worker(program: str, url: str, *words: str) -> subprocess.Popen[str]:
    """The same program as a worker; it says `ready`, and the time when it has handled what it was told to count."""
    worker = subprocess.Popen(
        [sys.executable, "-P", program, url, "worker", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    if said(worker) != "ready":
        raise RuntimeError("the worker of the measurement did not start")
    return worker


def said(worker: subprocess.Popen[str]) -> str:
    """The next line of a worker."""
    line = worker.stdout.readline() if worker.stdout is not None else ""
    if not line:
        raise RuntimeError("the worker of the measurement failed")
    return line.strip()


def show(figures: dict[str, float]) -> None:
    """What measuring.py reads."""
    print(json.dumps(figures), flush=True)
