"""The place of a fault test: one namespace, a publisher in this process, workers in processes of their own."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from callboard import TopicId
from callboard.runtime.runtime import RedisAgentRuntime

from .eventually import eventually
from .jobs import Behaviour, Job, app
from .ledger import Ledger
from .processes import Process, python

SHORT_LEASE = {"CALLBOARD_LEASE": "1", "CALLBOARD_BEAT_EVERY": "0.2"}


class WorkerFleet:
    """One namespace on a server.

    Args:
        url: how the workers and the publisher find the server.
        namespace: on it.
        file: of the effects.
        address: how redis-py finds the server, where it is another way.
    """

    def __init__(self, url: str, namespace: str, file: Path, address: str = "") -> None:
        self.url = url
        self.namespace = namespace
        self.ledger = Ledger(address or url, namespace, file)
        self.publisher = RedisAgentRuntime.from_app(app, url, namespace=namespace, types=())
        self.workers: list[Process] = []
        self._numbers: Counter[str] = Counter()
        self._environ = {"LEDGER": str(file)}

    async def open(self) -> None:
        await self.publisher.open()

    @property
    def published(self) -> dict[str, int]:
        """For each key how many jobs were published."""
        return dict(self._numbers)

    async def publish(
        self, key: str, behaviour: Behaviour = "sleep", seconds: float = 0.0, topic: str = "jobs"
    ) -> int:
        """Publishes the next job of a key; returns its number."""
        seq = self._numbers[key]
        self._numbers[key] += 1
        job = Job(seq=seq, behaviour=behaviour, seconds=seconds)
        await self.publisher.publish_message(job, TopicId(topic, key))
        return seq

    async def publish_many(self, count: int, keys: int, seconds: float = 0.0) -> None:
        """Publishes jobs over many keys, as fast as it goes."""
        for start in range(0, count, 200):
            numbers = range(start, min(start + 200, count))
            await asyncio.gather(*(self.publish(f"k{i % keys}", seconds=seconds) for i in numbers))

    def worker(self, *types: str, environ: dict[str, str] | None = None, short: bool = True) -> Process:
        """Starts a worker process.

        Args:
            types: agent types; none: all.
            environ: settings, such as CALLBOARD_DRAIN_GRACE.
            short: with a lease of 1 s instead of the default.
        """
        command = python("-m", "tests.helpers.work", self.url, self.namespace, *types)
        process = Process(command, {**self._environ, **(SHORT_LEASE if short else {}), **(environ or {})})
        self.workers.append(process)
        return process

    async def ready_worker(
        self, *types: str, environ: dict[str, str] | None = None, short: bool = True
    ) -> Process:
        """Starts a worker process and waits until it takes messages."""
        process = self.worker(*types, environ=environ, short=short)
        await process.says("works as", within=60)
        return process

    async def effects(self, number: int, within: float = 15.0) -> None:
        """Waits for so many effects."""

        def shown() -> str:
            outputs = "\n---\n".join(worker.output()[-2000:] for worker in self.workers)
            return f"{number} effects, there are {self.ledger.count()}\n{outputs}"

        await eventually(lambda: self.ledger.count() >= number, within, what=shown)

    async def settled(self, *types: str, within: float = 10.0) -> None:
        """Waits until nothing is held any more."""

        def left() -> list[str]:
            return [what for name in types or ("job",) for what in self.ledger.left_over(name)]

        await eventually(lambda: not left(), within, what=left)

    async def close(self) -> None:
        for worker in self.workers:
            worker.close()
        await self.publisher.close()
        self.ledger.close()
