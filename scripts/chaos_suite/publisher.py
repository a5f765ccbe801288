"""A publisher process: `python -m scripts.chaos_suite.publisher URL NAMESPACE FOLDER NAME KEYS EVERY`.

It publishes jobs for its agent keys, one after the other for each, until SIGTERM, and writes down every call before it
is made and when it was answered. Every other message carries a `message_id`: such a message is published again after an
error, now and then twice although the first time worked, and once more by the process that follows one that was killed.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from pathlib import Path

from callboard import TopicId
from callboard.broker import BrokerSettings
from callboard.broker.errors import OverloadedError, ServerUnavailableError
from callboard.cli.sessions import run
from callboard.runtime.runtime import RedisAgentRuntime

from .clock import now
from .history import WITHOUT_ID, Event, LineFile, Recorder, read
from .workload import Job, app

AGAIN = 0.05  # seconds before a message is published again after an error
TWICE = 0.1  # share of the messages with an id that are published twice for no reason
LONGEST_JOB = 0.03  # seconds
SHARED = 2  # keys that all publishers use


def journal(folder: Path, name: str) -> Path:
    """The history of the publishers of this name."""
    return folder / f"publish-{name}.jsonl"


def notes(folder: Path, name: str) -> Path:
    """The file of further measurements of a publisher."""
    return folder / f"notes-{name}.jsonl"


class Publisher:
    """Publishes for some keys.

    Args:
        runtime: to publish with.
        folder: where the journal is.
        name: of this publisher; the journal of an earlier process of this name is taken up.
        keys: agent keys of its own.
        every: seconds between two messages for one key, on average.
    """

    def __init__(self, runtime: RedisAgentRuntime, folder: Path, name: str, keys: int, every: float) -> None:
        self._runtime = runtime
        self._name = name
        self._keys = [f"{name}.k{number}" for number in range(keys)]
        self._every = every
        earlier = read(journal(folder, name))
        self._next = _next_numbers(earlier)
        self._unanswered = _unanswered(earlier)
        self._recorder = Recorder(journal(folder, name), f"{name}:{os.getpid()}")
        self._notes = LineFile(notes(folder, name))
        self._chance = random.Random(f"{name} {len(earlier)}")
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Ends when what was begun is answered."""
        self._stopping.set()

    async def work(self) -> None:
        """Publishes until it is stopped."""
        for event in self._unanswered:
            await self._publish(event.key, event.id)
        keys = [*self._keys, *(f"shared.k{number}" for number in range(SHARED))]
        async with asyncio.TaskGroup() as group:
            for key in keys:
                group.create_task(self._serve(key))

    async def _serve(self, key: str) -> None:
        await self._pause(self._every * self._chance.random())
        while not self._stopping.is_set():
            number = self._next[key] = self._next.get(key, 0) + 1
            own = f"{key}/{number}" if key.startswith(self._name) else f"{key}/{self._name}-{number}"
            await self._publish(key, own if number % 2 else own + WITHOUT_ID)
            await self._pause(self._every * (0.5 + self._chance.random()))

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    async def _publish(self, key: str, id: str) -> None:
        """Publishes a job until it is there, once in effect; without a message id it stops when an outcome is not known."""
        may_repeat = not id.endswith(WITHOUT_ID)
        job = Job(id=id, published=now(), seconds=self._chance.uniform(0, LONGEST_JOB))
        again = may_repeat and self._chance.random() < TWICE
        while True:
            answered = await self._try(key, job, id if may_repeat else None)
            if answered is True and not again:
                return
            if answered is True:
                again = False
            elif answered is None and not may_repeat:
                return
            else:
                await asyncio.sleep(AGAIN)

    async def _try(self, key: str, job: Job, message_id: str | None) -> bool | None:
        """True: it is there. False: it is not. None: that is not known."""
        began = now()
        self._recorder.record("invoke", "publish", key, job.id)
        try:
            await self._runtime.publish_message(job, TopicId("jobs", key), message_id=message_id)
        except OverloadedError:
            self._recorder.record("fail", "publish", key, job.id)
            self._notes.add({"what": "overloaded", "seconds": now() - began, "time": began})
            return False
        except ServerUnavailableError:
            self._recorder.record("info", "publish", key, job.id)
            return None
        self._recorder.record("ok", "publish", key, job.id)
        return True


def _next_numbers(earlier: list[Event]) -> dict[str, int]:
    highest: dict[str, int] = {}
    for event in earlier:
        number = int(event.id.rstrip(WITHOUT_ID).rpartition("/")[2].rpartition("-")[2])
        highest[event.key] = max(number, highest.get(event.key, 0))
    return highest


def _unanswered(earlier: list[Event]) -> list[Event]:
    """Messages with an id of which the process that was killed did not hear that they arrived."""
    arrived = {event.id for event in earlier if event.type == "ok"}
    begun = {event.id: event for event in earlier if event.is_repeatable}
    return [event for event in begun.values() if event.id not in arrived]


async def main(url: str, namespace: str, folder: str, name: str, keys: str, every: str) -> None:
    """Publishes until SIGTERM."""
    settings = BrokerSettings.from_env(url=url, namespace=namespace)
    async with RedisAgentRuntime.from_app(
        app, url, namespace=namespace, settings=settings, types=()
    ) as runtime:
        publisher = Publisher(runtime, Path(folder), name, int(keys), float(every))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, publisher.stop)
        print("publishes", flush=True)
        await publisher.work()


if __name__ == "__main__":
    run(main(*sys.argv[1:]))
