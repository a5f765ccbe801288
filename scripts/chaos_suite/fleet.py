"""The worker processes of one act, and the publishers of its load: started, tended, and gone at the end."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.helpers.eventually import eventually
from tests.helpers.processes import Process, python

from .proxy import Proxy

TEND_EVERY = 0.05  # seconds
STARTS_WITHIN = 30.0  # seconds
NO_SERVER = 3  # exit code of `callboard worker`
TARGET = "scripts.chaos_suite.workload:app"
SHORTENED = 1500  # characters of a process's output in a report

Route = Callable[[], Awaitable[tuple[str, Proxy | None]]]
"""Gives a process its URL, and the proxy behind it."""


@dataclass(eq=False)
class Member:
    """One process.

    Attributes:
        name: unique in the act.
        process: it.
        proxy: its way to the server, if that is a proxy.
        environ: what it was started with, besides what all have.
        may_end: a fault ended it, or will.
        has_begun: it has said that it works.
    """

    name: str
    process: Process
    proxy: Proxy | None
    environ: Mapping[str, str] = field(default_factory=dict)
    may_end: bool = False
    has_begun: bool = False

    @property
    def is_working(self) -> bool:
        if self.process.is_alive and not self.has_begun:
            self.has_begun = "works as" in self.process.output()
        return self.has_begun and self.process.is_alive


class Fleet:
    """Worker processes that are replaced when they die, as a supervisor would, but one that tells the server nothing.

    Args:
        namespace: where they work.
        environ: variables that all of them get.
        route: gives each its URL.
        target: the application.
    """

    def __init__(
        self, namespace: str, environ: Mapping[str, str], route: Route, target: str = TARGET
    ) -> None:
        self._namespace = namespace
        self._target = target
        self._environ = dict(environ)
        self._route = route
        self._count = 0
        self._tending: asyncio.Task[None] | None = None
        self._supervisors: list[Process] = []
        self.members: list[Member] = []
        self.past: list[Member] = []
        self.mishaps: list[str] = []
        self.tolerated: set[int] = set()

    @property
    def working(self) -> list[Member]:
        """Those that have said that they work, and are alive."""
        return [member for member in self.members if member.is_working]

    async def start(self, environ: Mapping[str, str] | None = None) -> Member:
        """Starts one more; it will be replaced when it dies."""
        member = await self._spawn(environ or {})
        self.members.append(member)
        if self._tending is None:
            self._tending = asyncio.create_task(self._tend())
        return member

    async def grow(self, number: int, environ: Mapping[str, str] | None = None) -> list[Member]:
        """Starts so many and waits until they work."""
        started = [await self.start(environ) for _ in range(number)]
        for member in started:
            await member.process.says("works as", within=STARTS_WITHIN)
        return started

    async def _spawn(self, environ: Mapping[str, str]) -> Member:
        url, proxy = await self._route()
        self._count += 1
        command = python("-m", "callboard", "worker", self._target, "--namespace", self._namespace)
        process = Process(command, {**self._environ, **environ, "CALLBOARD_URL": url})
        return Member(f"worker-{self._count}", process, proxy, environ)

    async def supervised(self, number: int) -> Process:
        """A supervisor of so many workers for jobs; returns when they work. The caller ends it."""
        url, _ = await self._route()
        environ = {**self._environ, "CALLBOARD_URL": url}
        process = Process(supervisor_command(self._namespace, number), environ)
        self._supervisors.append(process)
        await eventually(lambda: len(process.lines("works as")) >= number, STARTS_WITHIN, what=process.output)
        return process

    async def victim(self, chance: random.Random) -> Member:
        """One that works."""
        await eventually(lambda: self.working, STARTS_WITHIN)
        return chance.choice(self.working)

    def kill(self, member: Member) -> None:
        """Kill -9."""
        member.may_end = True
        member.process.kill()

    async def retire(self, member: Member) -> int:
        """SIGTERM, and waits until it has gone; it is not replaced. Returns the exit code."""
        if member in self.members:  # else a fault was faster, with kill -9
            self.members.remove(member)
            self.past.append(member)
            member.process.signal(signal.SIGTERM)
        return await member.process.ended(STARTS_WITHIN)

    async def _tend(self) -> None:
        while True:
            for member in [one for one in self.members if not one.process.is_alive]:
                self.members.remove(member)
                self.past.append(member)
                if not (member.may_end or self._is_tolerated(member)):
                    self.mishaps.append(
                        f"{member.name} ended with {member.process.exit_code}: "
                        f"{member.process.output()[-SHORTENED:]}"
                    )
                self.members.append(await self._spawn(member.environ))
            await asyncio.sleep(TEND_EVERY)

    def _is_tolerated(self, member: Member) -> bool:
        """A worker that finds no server when it starts says so and ends; the fleet starts it again."""
        found_no_server = member.process.exit_code == NO_SERVER and not member.process.lines("works as")
        return found_no_server or member.process.exit_code in self.tolerated

    async def _stop_tending(self) -> None:
        if self._tending is not None:
            self._tending.cancel()
            await asyncio.gather(self._tending, return_exceptions=True)
            self._tending = None

    def tracebacks(self) -> list[str]:
        """The tracebacks that processes showed, shortened."""
        found = []
        for member in [*self.past, *self.members]:
            output = member.process.output()
            if "Traceback" in output:
                at = output.index("Traceback")
                found.append(f"{member.name} showed a traceback: {output[at : at + SHORTENED]}")
        return found

    def keep_outputs(self, folder: Path) -> None:
        """Copies what the processes said."""
        for member in [*self.past, *self.members]:
            (folder / f"{member.name}.log").write_text(member.process.output(), "utf-8")

    async def close(self) -> None:
        """Nothing is left."""
        await self._stop_tending()
        for process in self._supervisors:
            process.close()
        for member in [*self.past, *self.members]:
            member.process.close()


class Load:
    """The publisher processes.

    Args:
        namespace: where they publish.
        folder: where their journals are.
        keys, every: see Setting.
        environ: variables that all of them get.
        route: gives each its URL.
    """

    def __init__(
        self,
        namespace: str,
        folder: Path,
        keys: int,
        every: float,
        environ: Mapping[str, str],
        route: Route,
    ) -> None:
        self._arguments = (namespace, str(folder))
        self._keys, self._every = keys, every
        self._environ = dict(environ)
        self._route = route
        self.members: dict[str, Member] = {}
        self.past: list[Member] = []
        self.mishaps: list[str] = []

    async def start(self, name: str, environ: Mapping[str, str] | None = None) -> None:
        """Starts the publisher of a name, or starts it again: it goes on with its journal."""
        deadline = time.monotonic() + STARTS_WITHIN
        while True:
            member = await self._spawn(name, environ or {})
            began = await self._begins(member)
            if began or time.monotonic() > deadline:
                self.members[name] = member
                return
            self.past.append(member)

    async def _spawn(self, name: str, environ: Mapping[str, str]) -> Member:
        url, proxy = await self._route()
        command = python("-m", "scripts.chaos_suite.publisher", url, *self._arguments, name)
        process = Process([*command, str(self._keys), str(self._every)], {**self._environ, **environ})
        return Member(name, process, proxy, environ)

    async def _begins(self, member: Member) -> bool:
        """Waits until it publishes. False: it ended, because there is no server just now."""
        process = member.process
        await eventually(lambda: process.lines("publishes") or not process.is_alive, STARTS_WITHIN)
        return process.is_alive

    async def kill_one(self, chance: random.Random) -> None:
        """Kill -9 of one, and the same again, which has to find out what it had done."""
        name = chance.choice(sorted(self.members))
        member = self.members.pop(name)
        member.process.kill()
        self.past.append(member)
        await self.start(name, member.environ)

    async def stop(self) -> None:
        """They publish nothing new, and end when everything is answered."""
        for member in self.members.values():
            member.process.signal(signal.SIGTERM)
        for member in self.members.values():
            code = await member.process.ended(STARTS_WITHIN)
            if code:
                self.mishaps.append(
                    f"the publisher {member.name} ended with {code}: {member.process.output()[-SHORTENED:]}"
                )
        self.past += self.members.values()
        self.members.clear()

    def keep_outputs(self, folder: Path) -> None:
        """Copies what the processes said."""
        for number, member in enumerate([*self.past, *self.members.values()]):
            (folder / f"publisher-{member.name}-{number}.log").write_text(member.process.output(), "utf-8")

    def close(self) -> None:
        for member in [*self.past, *self.members.values()]:
            member.process.close()


def supervisor_command(namespace: str, workers: int) -> list[str]:
    """`callboard up` for the job agents."""
    counts = [
        argument for name in ("frail=0", "alarm=0", f"job={workers}") for argument in ("--processes", name)
    ]
    return python("-m", "callboard", "up", TARGET, "--namespace", namespace, "--grace", "5", *counts)
