"""Requests that lead back to an agent which waits for them: sent to its activation, read by it, answered by it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from callboard.broker.envelope import FIELDS, Posting, Route, encode
from callboard.broker.errors import NotWaitingError

from .commits import reply_values
from .connection import Link
from .endpoint import Argument

BATCH: Final = 100  # requests in one read
START: Final = "0-0"  # before the first one


class Place(NamedTuple):
    """An activation: type and key of the agent, the message that it handles, and the worker that runs it."""

    agent_type: str
    key: str
    message_id: str
    worker: str


class NestedRequests:
    """One process's side of nested requests, over a connection of its own.

    Every call may be sent again when its answer was lost: the scripts do each thing once.
    """

    def __init__(self, link: Link, process: str) -> None:
        self._link = link
        self._process = process
        self._listening: dict[str, asyncio.Event] = {}

    # Who asks

    async def send(self, posting: Posting, agent_type: str, route: Route) -> None:
        """Sends a request to the activation that a route leads to.

        Raises:
            NotWaitingError: it does not wait any more.
            OverloadedError: the server's memory is full.
        """
        message_id, ask = route
        window = int(self._link.settings.dedupe_window * 1000)
        arguments: list[Argument] = [
            window,
            posting.idempotency_id,
            self._process,
            agent_type,
            message_id,
            ask,
        ]
        arguments += encode(posting.envelope)
        arguments += posting.claim or ()
        if await self._run("nest", arguments) == b"gone":
            raise NotWaitingError(f"{agent_type}/{posting.envelope.key}")

    # Who is asked

    def listen(self, ask: str) -> asyncio.Event:
        """An event that is set when something came for an ask of this process; `ignore` ends it."""
        return self._listening.setdefault(ask, asyncio.Event())

    def ignore(self, ask: str) -> None:
        """The handler does not listen for this ask any more."""
        self._listening.pop(ask, None)

    def notify(self, ask: str) -> None:
        """Something came for an ask."""
        event = self._listening.get(ask)
        if event is not None:
            event.set()

    async def read(self, place: Place, after: str) -> list[tuple[str, list[bytes]]]:
        """Entries behind `after`, with the seven values of each (see envelope.py); all of them when it is gone."""
        key = self._link.keys.of(f"nested:{place.agent_type}:{place.message_id}")
        found = await self._range(key, after)
        if after != START and (not found or found[0][0].decode() != after):
            # The server lost a tail, and goes on with ids that may be below the remembered one.
            found = await self._range(key, START)
        return [(entry.decode(), _values(flat)) for entry, flat in found if entry.decode() != after]

    async def _range(self, key: str, first: str) -> list[tuple[bytes, list[bytes]]]:
        found: list[tuple[bytes, list[bytes]]] = await self._link.patiently(
            lambda: self._link.command("XRANGE", key, first, "+", "COUNT", BATCH)
        )
        return found

    async def ending(self, place: Place, entry: str) -> str:
        """How an earlier run of the activation ended an entry: "ok", "failed", or "" when it did not."""
        key = self._link.keys.of(f"once:{place.agent_type}:{place.message_id}")
        found = await self._link.patiently(lambda: self._link.command("HGET", key, f"!{entry}"))
        return found.decode() if found else ""

    async def answer(self, place: Place, entry: str, ending: str, reply: Posting) -> bool:
        """Ends an entry: keeps how it ended, and sends the reply to the requester.

        Args:
            place: the activation.
            entry: the request.
            ending: "ok" or "failed".
            reply: the answer to it.

        Returns:
            False when another worker runs the agent now: nothing was written.
        """
        agent_type, key, message_id, worker = place
        window = int(self._link.settings.dedupe_window * 1000)
        arguments: list[Argument] = [worker, agent_type, key, message_id, entry, ending, window]
        process, _, *values = reply_values(reply)
        arguments += (process, *values, *(reply.claim or ()))
        return bool(await self._run("answer", arguments) != b"FENCED")

    async def _run(self, name: str, arguments: list[Argument]) -> Any:
        return await self._link.patiently(lambda: self._link.run(name, arguments))

    def close(self) -> None:
        self._link.close()


def _values(flat: Sequence[bytes]) -> list[bytes]:
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    return [fields.get(name.encode(), b"") for name in FIELDS]
