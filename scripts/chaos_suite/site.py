"""The place of one act: a server of its own, worker processes, publishers, and what the faults need to see and do."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import redis.asyncio as redis
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff

from callboard import TopicId
from callboard.broker import BrokerSettings
from callboard.broker.errors import OverloadedError, ServerUnavailableError
from callboard.runtime.runtime import RedisAgentRuntime
from tests.helpers.eventually import eventually
from tests.helpers.processes import ROOT
from tests.helpers.servers import Kind, ServerProcess, best_kind

from . import clock
from .collecting import Namespace
from .evidence import Evidence, Expected
from .executions import EffectsReader, Execution
from .figures import Figure, Measured
from .fleet import Fleet, Load
from .history import Event, Recorder, read
from .proxy import Proxy
from .setting import BEAT_EVERY, Setting
from .workload import FOLDER, Behaviour, Job, app

RESTS_WITHIN = 40.0  # seconds until everything has to be handled when nothing is published any more
UNLIMITED = "10000000"  # entries of the effects, a topic without a subscriber
RETRY_EVERY, RETRIES = 0.05, 400
NAMESPACE = "chaos"


class Site:
    """One act's place. Everything is removed by `close`, except its folder.

    Args:
        folder: for logs and journals; it exists.
        setting: what it looks like.
        kind: which server.

    Attributes:
        server, fleet, load, space: the server, the workers, the publishers, the streams.
        environ: variables of all processes.
        chance: what the faults draw from while they are at work.
        measured: what they have measured.
    """

    def __init__(self, folder: Path, setting: Setting, seed: str, kind: Kind | None = None) -> None:
        self.folder = folder
        self.setting = setting
        self.chance = random.Random(seed)
        options = ("--appendonly", "yes", "--appendfsync", setting.sync)
        self.kind: Kind = kind or best_kind()
        self.server = ServerProcess(self.kind, options=options)
        self.environ = {**self._environ(), **setting.environ}
        self.fleet = Fleet(NAMESPACE, self.environ, self._route)
        self.load = Load(NAMESPACE, folder, setting.keys, setting.every, self.environ, self._route)
        self.measured: list[Measured] = []
        self._effects = EffectsReader(folder)
        self._proxies: list[Proxy] = []
        self._recorder = Recorder(folder / "publish-runner.jsonl", "runner")
        self._numbers = itertools.count(1)
        self.dead: dict[str, int] = {}
        self.junk: set[str] = set()
        self.unordered: set[str] = set()
        self.lost_at = 0.0

    def _environ(self) -> dict[str, str]:
        return {
            "CALLBOARD_LEASE": f"{self.setting.lease:g}",
            "CALLBOARD_BEAT_EVERY": f"{BEAT_EVERY * self.setting.lease:g}",
            "CALLBOARD_DRAIN_GRACE": "5",
            "CALLBOARD_RETRY_BASE": "0.05",
            "CALLBOARD_MAX_UNCLAIMED": UNLIMITED,
            "PYTHONPATH": str(ROOT),
            FOLDER: str(self.folder),
            **clock.environment(),
        }

    async def open(self) -> None:
        """Starts everything and waits until it works."""
        self.server.start()
        retry = Retry(ConstantBackoff(RETRY_EVERY), RETRIES)
        self.client: Any = redis.Redis(
            unix_socket_path=str(self.server.path),
            retry=retry,
            retry_on_error=[exceptions.ConnectionError, exceptions.TimeoutError, exceptions.BusyLoadingError],
        )
        self.space = Namespace(self.client, NAMESPACE)
        settings = BrokerSettings(namespace=NAMESPACE, max_unclaimed=int(UNLIMITED))
        self.runtime = RedisAgentRuntime.from_app(
            app, self.server.url, namespace=NAMESPACE, settings=settings, types=()
        )
        await self.runtime.open()
        await self.fleet.grow(self.setting.workers)
        for number in range(self.setting.publishers):
            await self.load.start(f"p{number + 1}")

    async def _route(self) -> tuple[str, Proxy | None]:
        if not self.setting.proxied:
            return self.server.url, None
        proxy = Proxy(self.server.path)
        await proxy.start()
        self._proxies.append(proxy)
        return proxy.url, proxy

    @property
    def proxies(self) -> list[Proxy]:
        """Of processes that are alive."""
        members = [*self.fleet.members, *self.load.members.values()]
        return [member.proxy for member in members if member.proxy is not None and member.process.is_alive]

    # Publishing from here

    async def publish(
        self,
        key: str,
        behaviour: Behaviour = "sleep",
        seconds: float = 0.0,
        topic: str = "jobs",
        at: float | None = None,
        filler: int = 0,
    ) -> str:
        """Publishes a job, with a message id; returns its id.

        Args:
            key: of the agent.
            behaviour: see Job.
            seconds: see Job.
            topic: `jobs`, `frail` or `alarms`.
            at: when it is due, by clock.py; None: now.
            filler: bytes that make it large.

        Raises:
            OverloadedError: the server's memory is full.
        """
        job = Job(
            id=f"{key}/{next(self._numbers)}",
            published=clock.now(),
            behaviour=behaviour,
            seconds=seconds,
            filler="x" * filler,
        )
        if at is not None:
            self.unordered.add(job.id)
        await self.publish_job(self.runtime, key, job, topic, at)
        return job.id

    async def publish_job(
        self, runtime: RedisAgentRuntime, key: str, job: Job, topic: str = "jobs", at: float | None = None
    ) -> None:
        """Publishes this very job, which may have been published before."""
        due = None if at is None else datetime.fromtimestamp(at, UTC)
        while True:
            self._recorder.record("invoke", "publish", key, job.id)
            try:
                await runtime.publish_message(job, TopicId(topic, key), message_id=job.id, at=due)
                break
            except OverloadedError:
                self._recorder.record("fail", "publish", key, job.id)
                raise
            except ServerUnavailableError:
                self._recorder.record("info", "publish", key, job.id)
                await asyncio.sleep(RETRY_EVERY)
        self._recorder.record("ok", "publish", key, job.id)

    # Looking

    def executions(self) -> list[Execution]:
        """The executions that the handlers have noted so far."""
        return self._effects.read()

    async def committed(self, ids: Iterable[str], within: float = RESTS_WITHIN) -> None:
        """Waits until all of these are committed."""
        missing = set(ids)
        seen = 0.0

        async def none_is() -> bool:
            nonlocal seen
            for commit in await self.space.commits(seen):
                missing.discard(commit.id)
                # Several commits share a millisecond, and more of it may still come.
                seen = commit.time - 0.002
            return not missing

        await eventually(none_is, within, what=lambda: f"commits of {sorted(missing)[:5]}")

    async def resumed(self, since: float, within: float = 30.0) -> float:
        """Waits for the commit of a job that was handed in after `since`; how many seconds it took."""

        async def first() -> float:
            commits = await self.space.commits(since)
            return min((one.time for one in commits if one.published >= since), default=0.0)

        return float(await eventually(first, within, what="a commit after the fault")) - since

    def measure(self, figure: Figure, value: float) -> None:
        """Notes a measurement."""
        self.measured.append(Measured(figure, value))

    async def rest(self) -> None:
        """Ends the load and waits until everything is handled, or ought to be."""
        await self.load.stop()

        async def is_at_rest() -> bool:
            return not (
                await self.space.busy()
                or await self.space.timers()
                or await self.space.pending()
                or await self.space.unread()
            )

        deadline = time.monotonic() + RESTS_WITHIN
        seen = 0
        while seen < 2 and time.monotonic() < deadline:
            seen = seen + 1 if await is_at_rest() else 0
            await asyncio.sleep(0.1)

    async def evidence(self) -> Evidence:
        """Everything that is known; to be called at rest, while the workers run."""
        await self._leases_ended()
        space = self.space
        return Evidence(
            history=tuple(self.history()),
            executions=tuple(self.executions()),
            commits=tuple(await space.commits()),
            letters=tuple(await space.letters()),
            states=await space.states(),
            pending=await space.pending(),
            busy=tuple(await space.busy()),
            consumers=await space.consumers(),
            workers=len(self.fleet.working),
            keys=tuple(await space.keys()),
            mishaps=(*self.fleet.mishaps, *self.load.mishaps, *self.fleet.tracebacks()),
            expected=Expected(
                dead=dict(self.dead),
                junk=frozenset(self.junk),
                unordered=frozenset(self.unordered),
                lost_at=self.lost_at,
            ),
        )

    async def _leases_ended(self) -> None:
        """Waits for leases to end: a worker that was killed just now is counted until another worker reaps it."""

        async def only_the_living() -> bool:
            return len(await self.space.workers()) <= len(self.fleet.working)

        with contextlib.suppress(AssertionError):  # then the checker says what is wrong
            await eventually(only_the_living, 5 * self.setting.lease)

    def history(self) -> list[Event]:
        """The events that all publishers have noted."""
        files = sorted(self.folder.glob("publish-*.jsonl"))
        return sorted((event for path in files for event in read(path)), key=lambda event: event.time)

    async def close(self) -> None:
        """Ends every process and connection, at once."""
        await self.fleet.close()
        self.load.close()
        self.server.kill()
        for proxy in self._proxies:
            await proxy.close()
        if hasattr(self, "runtime"):
            await self.runtime.close()
            await self.client.aclose()
        self._recorder.close()
        self.server.__exit__(None, None, None)
