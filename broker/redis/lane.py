"""A worker's line to the server: join, turns (commit what is done, take new work), the bell, and leaving."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..delivery import Delivery
from ..errors import (
    CommandError,
    ConnectionLostError,
    EncodeError,
    FencedError,
    OverloadedError,
    ServerUnavailableError,
)
from . import keys
from .link import Link
from .wire import Argument, pack

logger = logging.getLogger("callboard.broker")

WIDTH = 11  # values of one delivery in an answer


class Want(NamedTuple):
    """How many entries of an agent type a worker would take now. `rate_limit`: most of them a second, of all workers."""

    agent_type: str
    entries: int
    persistent: bool
    rate_limit: float | None = None


class Done(NamedTuple):
    """A finished delivery as the commit script wants it: mode letters and their arguments, see step.lua."""

    delivery: Delivery
    mode: str
    extras: Sequence[Argument]


class Turn(NamedTuple):
    """What a turn brought."""

    deliveries: list[Delivery]
    server_ms: int
    next_due_ms: int | None
    more: bool
    suspects_wait: bool
    full_topic: str


class WorkerLane:
    """One incarnation of a worker after another; each has a name that ends with its fencing token."""

    def __init__(self, link: Link, bell_link: Link) -> None:
        self._link = link
        self._bell = bell_link
        self._calls = 0
        self.worker = ""

    async def join(self, agent_types: Sequence[str], accepts: Mapping[str, int] | None = None) -> None:
        """Begins a new incarnation.

        Args:
            agent_types: what it works for.
            accepts: the messages that it knows, with their versions.
        """
        settings = self._link.settings
        host, pid = socket.gethostname(), os.getpid()
        lease = int(settings.lease * 1000)
        arguments = (f"{host}:{pid}", lease, " ".join(agent_types), host, pid, as_words(accepts or {}))
        answer = await self._link.run("join", arguments)
        self.worker = answer[0].decode()
        self._calls = 0

    async def turn(
        self, done: Sequence[Done], wants: Sequence[Want], held: int, scan: bool, accept: bool
    ) -> Turn:
        """One call: commits `done`, takes new entries.

        Raises:
            FencedError: the lease was lost; nothing of the call was written.
            ConnectionLostError: whether the call was carried out is unknown; `resync` tells.
        """
        self._calls += 1
        answer = await self._link.run("step", self._arguments(done, wants, held, scan, accept))
        self._check(answer)
        return self._read(answer)

    def _check(self, answer: Any) -> None:
        if answer[0] == b"FENCED":
            raise FencedError(self.worker)
        if answer[0] == b"STALE":
            raise ConnectionLostError(self._link.endpoint.shown, "an older call was overtaken")

    def _arguments(
        self, done: Sequence[Done], wants: Sequence[Want], held: int, scan: bool, accept: bool
    ) -> list[Argument]:
        settings = self._link.settings
        arguments: list[Argument] = [
            self.worker,
            self._calls,
            settings.max_payload,
            settings.max_unclaimed,
            held,
            "1" if scan else "",
            "1" if accept else "",
            len(wants),
        ]
        for want in wants:
            rate = "" if want.rate_limit is None else want.rate_limit
            arguments += (want.agent_type, want.entries, "1" if want.persistent else "", rate)
        _add_commits(arguments, done)
        return arguments

    def _read(self, answer: Any) -> Turn:
        _, now, due, flags, flat, states = answer
        deliveries = _deliveries(flat)
        for i in range(0, len(states), 3):
            delivery = deliveries[states[i]]
            delivery.state_version = int(states[i + 1])
            delivery.state = states[i + 2]
        letters, _, full_topic = flags.decode().partition("f")
        return Turn(
            deliveries, int(now), int(due) if due else None, "m" in letters, "s" in letters, full_topic
        )

    async def resync(self) -> list[Delivery]:
        """What this worker holds as the server sees it; copies of older calls that still arrive are refused.

        Raises:
            FencedError: the lease was lost.
        """
        self._calls += 1
        answer = await self._link.run("resync", (self.worker, self._calls))
        self._check(answer)
        held = _deliveries(answer[1])
        for delivery in held:
            delivery.state_unknown = True
        return held

    async def announce(self, agent_types: Sequence[str]) -> None:
        """Says that this incarnation works for more agent types than it joined with."""
        key = self._link.keys.of(f"worker:{self.worker}")
        await self._link.command("HSET", key, "types", " ".join(agent_types))

    async def wait_for_bell(self, agent_types: Sequence[str], seconds: float) -> str | None:
        """Waits for a token.

        Returns:
            The agent type whose bell rang; None when none did; "" when the connection broke, after a short pause:
            then somebody may have rung.
        """
        if not agent_types:
            await asyncio.sleep(seconds)
            return None
        names = {self._bell.keys.of(keys.bell(agent_type)): agent_type for agent_type in agent_types}
        try:
            answer = await self._bell.command(
                "BLPOP", *names, f"{seconds:.3f}", timeout=seconds + self._bell.settings.socket_timeout
            )
        except (ConnectionLostError, ServerUnavailableError, CommandError) as error:
            logger.debug("the bell can't be heard: %s", error)
            await asyncio.sleep(min(0.1, seconds))
            return ""
        return None if answer is None else names[answer[0].decode()]

    async def ring(self, agent_type: str) -> None:
        """Passes a token on to another worker, or wakes this one. When that fails, they look by themselves soon."""
        try:
            # Not through the bell's own connection, which is busy while somebody waits on it.
            await self._link.command("RPUSH", self._link.keys.of(keys.bell(agent_type)), "1")
        except (ConnectionLostError, ServerUnavailableError, CommandError, OverloadedError) as error:
            logger.debug("the bell of %s can't be rung: %s", agent_type, error)

    async def leave(self, crashed: bool = False) -> None:
        """Ends the incarnation; what it still holds goes to the others at once, without counting an attempt."""
        await self._link.run("leave", ("1" if crashed else "", "1", self.worker))

    async def reconnect(self, within: float) -> None:
        """Makes the connection again after it broke."""
        await self._link.reconnect(within)

    def close(self) -> None:
        self._link.close()
        self._bell.close()


def as_words(accepts: Mapping[str, int]) -> str:
    """Messages and their versions, as the functions take them."""
    return " ".join(f"{name} {version}" for name, version in accepts.items())


def is_sendable(done: Done) -> bool:
    """Whether its arguments can be written; one that can't keeps all the others of a turn from leaving."""
    try:
        pack(done.extras)
    except EncodeError:
        return False
    return True


def _deliveries(flat: list[Any]) -> list[Delivery]:
    return [Delivery(*flat[i : i + WIDTH]) for i in range(0, len(flat), WIDTH)]


def _add_commits(arguments: list[Argument], done: Sequence[Done]) -> None:
    groups: dict[tuple[bytes, bytes], int] = {}
    commits: list[Argument] = []
    extras: list[Argument] = []
    for delivery, mode, its_extras in done:
        group = groups.setdefault((delivery.raw_type, delivery.stream), len(groups) + 1)
        commits += (group, delivery.entry, delivery.raw_key, mode)
        if its_extras:
            extras += its_extras
    arguments.append(len(groups))
    for name in groups:
        arguments += name
    arguments.append(len(done))
    arguments += commits
    arguments += extras
