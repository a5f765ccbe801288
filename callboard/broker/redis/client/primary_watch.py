"""Where the primary is that sentinels watch, and whether it is still that one."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from callboard.broker.errors import BrokerError
from callboard.broker.settings import BrokerSettings

from .endpoint import Endpoint
from .sentinels import Search
from .wire import Wire

logger = logging.getLogger("callboard.broker")

LOOK_EVERY = 1.0  # seconds


Ask = Callable[[Endpoint, Search], Awaitable[Any]]
"""Gets the answer of one sentinel; raises BrokerError where it can't be asked."""


async def ask(sentinel: Endpoint, search: Search) -> Any:
    """What one sentinel answers.

    Raises:
        BrokerError: it can't be asked.
    """
    wire = await Wire.open(sentinel, "callboard-asks", search.patience)
    try:
        return await wire.call_within(search.question, search.patience)
    finally:
        wire.close()


async def locate(endpoint: Endpoint, timeout: float, ask: Ask = ask) -> Endpoint:
    """Where a server is: behind sentinels at the address that most of them give, else where its URL says.

    Args:
        endpoint: of the server.
        timeout: seconds.
        ask: how each sentinel is asked.

    Raises:
        ServerUnavailableError: no sentinel knows, or they do not agree.
    """
    if endpoint.watched is None:
        return endpoint
    search = Search(endpoint, endpoint.watched, timeout)
    for sentinel in search.sentinels():
        try:
            search.heard(sentinel, await ask(sentinel, search))
        except BrokerError as error:
            search.failed(sentinel, error)
    return search.primary()


class OpenLines:
    """Connections to sentinels that stay open: who asks every second must not log in, and encrypt, each time anew."""

    def __init__(self) -> None:
        self._wires: dict[Endpoint, Wire] = {}

    async def ask(self, sentinel: Endpoint, search: Search) -> Any:
        """As the function `ask`."""
        wire = self._wires.get(sentinel)
        if wire is None or not wire.is_open:
            wire = await Wire.open(sentinel, "callboard-watch", search.patience)
            self._wires[sentinel] = wire
        return await wire.call_within(search.question, search.patience)

    def close(self) -> None:
        """Ends all of them."""
        for wire in self._wires.values():
            wire.close()
        self._wires.clear()


class Follower(Protocol):
    """What has a connection to the primary."""

    @property
    def connected_to(self) -> Endpoint | None:
        """Where the open connection leads; None: there is none."""
        ...

    def break_off(self, reason: str) -> None:
        """Drops the connection; the next one is to lead to the primary of then."""
        ...


class PrimaryWatch:
    """Asks the sentinels again and again, and breaks off the connections of a process to what is the primary no more.

    A primary that dies breaks its connections itself. One that is replaced while it lives, by `SENTINEL FAILOVER` or
    because sentinels could not reach it, takes what is written to it until it is told, ten seconds later (measured with
    redis 7.0.15); all of that will be lost.

    Args:
        endpoint: a server that sentinels watch.
        timeout: seconds that finding out may take.
    """

    def __init__(self, endpoint: Endpoint, timeout: float) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self._followers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._task: asyncio.Task[None] | None = None
        self._lines = OpenLines()
        self._closed = False

    def follow(self, follower: Follower) -> None:
        """From now on this one is told, too."""
        self._followers.add(follower)
        if self._task is None and not self._closed:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="callboard-primary-watch")

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                primary = await locate(self._endpoint, self._timeout, self._lines.ask)
            except BrokerError as error:
                # What is connected stays so: who can't reach the sentinels may well reach the server.
                logger.debug("sentinels do not say where the primary is: %s", error)
                continue
            self._leave_others(primary)

    def _leave_others(self, primary: Endpoint) -> None:
        followers: list[Follower] = list(self._followers)
        for follower in followers:
            # guard: nothing more is written to a server that sentinels have replaced
            if follower.connected_to not in (None, primary):
                follower.break_off(f"sentinels name {primary.shown} as the primary")

    def close(self) -> None:
        """Ends the watch for good; safe to repeat."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            self._task = None
        # Here and not when the task has ended: its event loop may run no further.
        self._lines.close()

    async def end(self) -> None:
        """As `close`; returns when its task has ended."""
        task = self._task
        self.close()
        if task is not None:
            await asyncio.wait({task})


def watch_of(endpoint: Endpoint, settings: BrokerSettings) -> PrimaryWatch | None:
    """A watch for the connections to a server that sentinels watch; None for any other."""
    return None if endpoint.watched is None else PrimaryWatch(endpoint, settings.connect_timeout)
