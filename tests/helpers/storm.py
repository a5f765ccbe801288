"""Real processes under mixed faults, and the history of what they did.

Two publishers write into the history as they publish; workers as their handlers begin and are cancelled. What was
committed is read at the end from the stream of effects, with plain commands.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import redis

from callboard import TopicId
from callboard.broker import BrokerSettings
from callboard.broker.errors import (
    BrokerError,
    ConnectionLostError,
    NotReplicatedError,
    ServerUnavailableError,
)
from callboard.runtime.runtime import RedisAgentRuntime

from .eventually import eventually
from .history import Event, Summary, check, read
from .processes import Process, python
from .recorded import Note, app
from .recorder import Recorder
from .servers import ServerProcess
from .worker_fleet import SHORT_LEASE

LEASE = float(SHORT_LEASE["CALLBOARD_LEASE"])
WORKERS = 3
PUBLISHERS = 2
LINES = 4  # publishers' tasks; each waits for one publish before the next
KEYS = 8
UNKNOWN = (ConnectionLostError, ServerUnavailableError, NotReplicatedError)


class Report(NamedTuple):
    """What a storm was."""

    summary: Summary
    faults: dict[str, int]
    runs: int
    seed: str


class Storm:
    """One namespace on a server that may be killed.

    Args:
        server: with an append-only file that is synced with every write.
        folder: where the histories go.
        seed: of the faults.
    """

    def __init__(self, server: ServerProcess, folder: Path, seed: str = "") -> None:
        self._server = server
        self._folder = folder
        self._namespace = f"storm-{os.urandom(4).hex()}"
        self.seed = seed or os.urandom(4).hex()
        self._chance = random.Random(self.seed)
        self._workers: list[Process] = []
        self._publishers: list[RedisAgentRuntime] = []
        self._names = itertools.count(1)
        self._is_over = False
        self._faults: Counter[str] = Counter()

    async def run(self, seconds: float) -> Report:
        """Publishes for so long, with a fault about every second; waits until all is handled; checks the history.

        Raises:
            AssertionError: the promise was broken; the text says how.
        """
        try:
            await self._begin()
            lines = [
                asyncio.create_task(self._publish(runtime, f"p{number}.{line}"))
                for number, runtime in enumerate(self._publishers)
                for line in range(LINES)
            ]
            await self._rage(seconds)
            self._is_over = True
            await asyncio.gather(*lines)
            await eventually(self._is_idle, within=60, what=self._shown)
            self._record_commits()
        finally:
            await self._end()
        events = read(*sorted(self._folder.glob("*.history")))
        runs = sum((event.op, event.type) == ("commit", "invoke") for event in events)
        return Report(check(events, across=True), dict(self._faults), runs, self.seed)

    async def _begin(self) -> None:
        settings = BrokerSettings(namespace=self._namespace)
        for _ in range(PUBLISHERS):
            runtime = RedisAgentRuntime.from_app(
                app, self._server.url, namespace=self._namespace, settings=settings, types=()
            )
            await runtime.open()
            self._publishers.append(runtime)
        self._workers = [self._new_worker() for _ in range(WORKERS)]
        for worker in self._workers:
            await worker.says("works as", within=60)

    def _new_worker(self) -> Process:
        file = self._folder / f"w{next(self._names)}.history"
        command = python("-m", "tests.helpers.recorded", self._server.url, self._namespace, str(file))
        return Process(command, SHORT_LEASE)

    # Publishing

    async def _publish(self, runtime: RedisAgentRuntime, process: str) -> None:
        recorder = Recorder(self._folder / f"{process}.history", process)
        chance = random.Random(f"{self.seed} {process}")
        while not self._is_over:
            key, name = f"k{chance.randrange(KEYS)}", f"n{next(self._names)}"
            note = Note(name=name, seconds=chance.choice((0.0, 0.0, 0.01, 0.05)))
            recorder.write("invoke", "publish", key, name)
            try:
                await runtime.publish_message(note, TopicId("notes", key))
            except UNKNOWN:
                recorder.write("info", "publish", key, name)
            except BrokerError:
                recorder.write("fail", "publish", key, name)
            else:
                recorder.write("ok", "publish", key, name)
            await asyncio.sleep(chance.uniform(0.0, 0.03))
        recorder.close()

    # Faults

    async def _rage(self, seconds: float) -> None:
        deadline = asyncio.get_running_loop().time() + seconds
        kinds: list[Callable[[], Awaitable[None]]] = [
            self._kill_a_worker,
            self._pause_a_worker,
            self._kill_the_server,
            self._kill_the_clients,
        ]
        for number in itertools.count():
            await asyncio.sleep(self._chance.uniform(0.3, 1.0))
            if asyncio.get_running_loop().time() > deadline:
                return
            # The first ones in turn, so that a short storm has some of each.
            fault = kinds[number] if number < len(kinds) else self._chance.choice(kinds)
            self._faults[fault.__name__.strip("_").replace("_", " ")] += 1
            await fault()

    async def _kill_a_worker(self) -> None:
        place = self._chance.randrange(WORKERS)
        self._workers[place].kill()
        self._workers[place].close()
        self._workers[place] = self._new_worker()

    async def _pause_a_worker(self) -> None:
        """For longer than its lease: when it wakes up it is a zombie."""
        worker = self._chance.choice(self._workers)
        worker.signal(signal.SIGSTOP)
        await asyncio.sleep(LEASE * self._chance.uniform(0.5, 2.5))
        worker.signal(signal.SIGCONT)

    async def _kill_the_server(self) -> None:
        self._server.kill()
        await asyncio.sleep(self._chance.uniform(0.0, 0.5))
        await asyncio.to_thread(self._server.start)

    async def _kill_the_clients(self) -> None:
        with redis.Redis.from_url(self._server.url) as client:
            for kind in ("normal", "pubsub"):
                client.client_kill_filter(_type=kind, skipme=True)

    # The end

    async def _is_idle(self) -> bool:
        try:
            unread, pending, due, _ = await self._publishers[0].transport.idle()
        except BrokerError:
            return False
        return not (unread or pending or due)

    def _shown(self) -> str:
        return "\n---\n".join(worker.output()[-1500:] for worker in self._workers)

    def _record_commits(self) -> None:
        with redis.Redis.from_url(self._server.url) as client:
            found: Any = client.xrange(f"callboard:{{{self._namespace}}}:topic:noted")
        recorder = Recorder(self._folder / "effects.history", "effects")
        for entry, fields in found:
            body = msgpack.unpackb(fields[b"body"])
            at = int(fields.get(b"at") or entry.partition(b"-")[0]) / 1000
            recorder.write("ok", "commit", body["key"], body["name"], at, process=body["run"])
        recorder.close()

    async def _end(self) -> None:
        self._is_over = True
        for worker in self._workers:
            worker.close()
        for runtime in self._publishers:
            await runtime.close()


def events_of(folder: Path) -> list[Event]:
    """The whole history that a storm left in a folder."""
    return read(*sorted(folder.glob("*.history")))
