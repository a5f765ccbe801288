"""Sentinels: which server is the primary, and whether it still is.

The sentinels are asked anew before each connection, and what most of them say counts. Redis' guidelines for clients
(https://redis.io/docs/latest/develop/reference/sentinel-clients/) take the first answer; a sentinel that is cut off from
the others goes on to name a primary that is cut off with it, and what is written there will be lost.
"""

from __future__ import annotations

import asyncio
import logging
import random
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol

from callboard.broker.errors import BrokerError, ServerUnavailableError
from callboard.broker.settings import BrokerSettings

from .endpoint import Address, Argument, Endpoint, Watched
from .wire import Wire

logger = logging.getLogger("callboard.broker")

# Which server is the primary

ROLE = ("ROLE",)


def question(watched: Watched) -> tuple[Argument, ...]:
    """The question that each sentinel is asked."""
    return ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", watched.name)


class PrimarySearch:
    """One search for the primary: whom to ask, and what they said.

    Args:
        endpoint: of the server.
        watched: how the sentinels know it.
        timeout: seconds that the whole search may take.

    Attributes:
        question: the command for each sentinel.
        patience: seconds that each of them gets to take the connection, and to answer.
    """

    def __init__(self, endpoint: Endpoint, watched: Watched, timeout: float) -> None:
        self._endpoint = endpoint
        self._watched = watched
        self._votes: Counter[Address] = Counter()
        self._in_vain: list[str] = []
        self.question = question(watched)
        self.patience = timeout / len(watched.sentinels)

    def sentinels(self) -> Iterator[Endpoint]:
        """Those to be asked, as servers, until most of all are of one mind. In random order: each bears its part."""
        listed = self._watched.sentinels
        for address in random.sample(listed, len(listed)):
            if max(self._votes.values(), default=0) > len(listed) / 2:
                return
            yield as_server(self._endpoint, self._watched, address)

    def heard(self, sentinel: Endpoint, answer: Any) -> None:
        """One answered: host and port, or None, when it watches no server of that name."""
        who = Address(sentinel.host, sentinel.port)
        match answer:
            case [bytes(host), bytes(port)] if port.isdigit():
                self._votes[Address(host.decode(errors="replace"), int(port))] += 1
            case None:
                self._in_vain.append(f"{who} watches no {self._watched.name!r}")
            case _:
                self._in_vain.append(f"{who} answers what no sentinel would")

    def failed(self, sentinel: Endpoint, error: BrokerError) -> None:
        """One can't be asked."""
        reason = error.reason if isinstance(error, ServerUnavailableError) else error
        self._in_vain.append(f"{Address(sentinel.host, sentinel.port)} can't be asked ({reason})")

    def primary(self) -> Endpoint:
        """The server that most of those who answered name.

        Raises:
            ServerUnavailableError: none did, or two servers are named equally often.
        """
        if not self._votes:
            why = "; ".join(sorted(self._in_vain))
            raise ServerUnavailableError(
                self._endpoint.shown, f"no sentinel says where the primary is: {why}"
            )
        (most, votes), *others = self._votes.most_common(2)
        # guard: where sentinels are of two minds, it is not by chance who is the primary
        if others and others[0][1] == votes:
            both = " and ".join(sorted(str(address) for address, _ in self._votes.most_common(2)))
            raise ServerUnavailableError(
                self._endpoint.shown, f"sentinels do not agree on the primary, they name {both}"
            )
        return self._endpoint.at(most)


def as_server(endpoint: Endpoint, watched: Watched, address: Address) -> Endpoint:
    """How the sentinel at this address is connected to, which may have a login of its own."""
    return Endpoint(
        endpoint.scheme,
        address.host,
        address.port,
        username=watched.username,
        password=watched.password,
        ca_file=endpoint.ca_file,
        check_certificate=endpoint.check_certificate,
    )


def check_role(primary: Endpoint, role: Any) -> None:
    """Looks at the answer to ROLE: sentinels may name a server that was demoted a moment ago.

    Raises:
        ServerUnavailableError: the server is no primary.
    """
    if role[0] != b"master":
        raise ServerUnavailableError(
            primary.shown, "sentinels name it as the primary, and it is a replica; asking them again may help"
        )


# Whether it still is

LOOK_EVERY = 1.0  # seconds


Ask = Callable[[Endpoint, PrimarySearch], Awaitable[Any]]
"""Gets the answer of one sentinel; raises BrokerError where it can't be asked."""


async def ask(sentinel: Endpoint, search: PrimarySearch) -> Any:
    """The answer of one sentinel.

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
    search = PrimarySearch(endpoint, endpoint.watched, timeout)
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

    async def ask(self, sentinel: Endpoint, search: PrimarySearch) -> Any:
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
    """A user of a connection to the primary."""

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
