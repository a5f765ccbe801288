"""Requests that lead back to an agent which waits for them: sent to its activation, read by it, answered by it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from callboard.broker.envelope import FIELDS, Fence, Posting, Route, encode
from callboard.broker.errors import FencedError, NotWaitingError

from .commits import reply_values
from .connection import Link
from .endpoint import Argument

BATCH: Final = 100  # requests in one read
START: Final = "0-0"  # before the first one
NO_FENCE: Final = ("", "")


class Place(NamedTuple):
    """An activation: type and key of the agent, the message that it handles, and what its worker holds of it."""

    agent_type: str
    key: str
    message_id: str
    fence: Fence


class NestedRequests:
    """One process's side of nested requests, over a connection of its own.

    Every call may be sent again when its answer was lost: the scripts do each thing once.
    """

    def __init__(self, link: Link, process: str) -> None:
        self._link = link
        self._process = process
        self._listening: dict[str, list[asyncio.Event]] = {}

    # Who asks

    async def send(self, posting: Posting, agent_type: str, route: Route) -> None:
        """Sends a request to the activation that a route leads to.

        Raises:
            NotWaitingError: it does not wait any more.
            FencedError: another worker has the message of the handler that asks.
            OverloadedError: the server's memory is full.
        """
        message_id, request_id = route
        window = int(self._link.settings.dedupe_window * 1000)
        arguments: list[Argument] = [
            *(posting.fence or NO_FENCE),
            window,
            posting.idempotency_id,
            self._process,
            agent_type,
            message_id,
            request_id,
        ]
        arguments += encode(posting.envelope)
        arguments += posting.claim or ()
        status = await self._run("nest", arguments)
        if status == b"gone":
            raise NotWaitingError(f"{agent_type}/{posting.envelope.key}")
        if status == b"FENCED" and posting.fence is not None:
            raise FencedError(posting.fence.worker)

    # Who is asked

    def listen(self, request_id: str) -> asyncio.Event:
        """An event that is set when something came for a request of this process; `ignore` ends it.

        Several may listen for one request at once, each with an event of its own: an id that a person chose may be asked by
        two handlers.
        """
        event = asyncio.Event()
        self._listening.setdefault(request_id, []).append(event)
        return event

    def ignore(self, request_id: str, event: asyncio.Event) -> None:
        """Whoever listens with this event does so no more."""
        everybody = self._listening.get(request_id, [])
        if event in everybody:
            everybody.remove(event)
        if not everybody:
            self._listening.pop(request_id, None)

    def notify(self, request_id: str) -> None:
        """Something came for a request of this process."""
        for event in self._listening.get(request_id, ()):
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

    async def answer(self, place: Place, entry: str, ending: str, reply: Posting) -> None:
        """Ends an entry: keeps how it ended, and sends the reply to the requester.

        Args:
            place: the activation.
            entry: the request.
            ending: "ok" or "failed".
            reply: the answer to it.

        Raises:
            FencedError: another worker has the message of the activation: nothing was written.
        """
        agent_type, _, message_id, fence = place
        window = int(self._link.settings.dedupe_window * 1000)
        arguments: list[Argument] = [*fence, agent_type, message_id, entry, ending, window]
        process, _, *values = reply_values(reply)
        arguments += (process, *values, *(reply.claim or ()))
        if await self._run("answer", arguments) == b"FENCED":
            raise FencedError(fence.worker)

    async def _run(self, name: str, arguments: list[Argument]) -> Any:
        return await self._link.patiently(lambda: self._link.run(name, arguments))

    def close(self) -> None:
        self._link.close()


def _values(flat: Sequence[bytes]) -> list[bytes]:
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    return [fields.get(name.encode(), b"") for name in FIELDS]
