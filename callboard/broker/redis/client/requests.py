"""The requests of one process and the replies to them, and requests that lead back to an agent which waits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

from callboard.broker.envelope import FIELDS, NO_FENCE, Envelope, Fence, Posting, Route, decode, encode
from callboard.broker.errors import ConnectionLostError, DecodeError, FencedError, NotWaitingError
from callboard.broker.limits import Limits
from callboard.broker.redis.keys import reply

from .connection import Link, StreamFollower
from .endpoint import Argument
from .lane import reply_values
from .publisher import Publisher

logger = logging.getLogger("callboard.broker")

REPLY_VALUES = len(FIELDS)
# A reply has none; what has one says that something came for a request of ours, see `NestedRequests`.
NOTICE = FIELDS.index("key")


class Requests:
    """Hands requests in, and gives each reply to its requester.

    Args:
        process: that asks; its stream of replies has this name.
        publisher: sends requests.
        nested: sends those to an activation that waits further up the chain.
        link: over which replies come.

    Attributes:
        late: replies for which no requester waited any more.
    """

    def __init__(self, process: str, publisher: Publisher, nested: NestedRequests, link: Link) -> None:
        self.late = 0
        self._publisher = publisher
        self._nested = nested
        self._link = link
        self._limits = Limits.of(link.settings)
        self._replies = StreamFollower(link, reply(process), self._on_reply, is_own=True)
        self._waiting: dict[bytes, list[asyncio.Future[Envelope]]] = {}
        self._nesting: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Requests without a reply."""
        return len(self._waiting)

    def ask(self, posting: Posting) -> asyncio.Future[Envelope]:
        """Hands in a request; the future gets the reply, or the error that kept the request from leaving.

        The id of the posting identifies the request, which may be asked several times at once; `forget` the future
        when the requester does not wait for it any more.
        """
        waiting = self._wait_for(posting)
        self._publisher.post(posting, RequestArrival.of(waiting, waiting.get_loop()))
        return waiting

    def ask_back(self, posting: Posting, agent_type: str, route: Route) -> asyncio.Future[Envelope]:
        """Like `ask`, for a request to an activation that waits further up the chain; see NestedRequests.send."""
        waiting = self._wait_for(posting)
        sending = asyncio.create_task(self._nested.send(posting, agent_type, route), name="callboard-nested")
        self._nesting.add(sending)
        sending.add_done_callback(self._nesting.discard)
        sending.add_done_callback(partial(_pass_error, waiting))
        return waiting

    def _wait_for(self, posting: Posting) -> asyncio.Future[Envelope]:
        self._replies.start()
        # Kept before the request leaves: its reply may be here before the publisher hears that the request arrived, and
        # a reply without a future is dropped as late.
        waiting: asyncio.Future[Envelope] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(posting.envelope.id.encode(), []).append(waiting)
        return waiting

    def forget(self, request_id: str, waiting: asyncio.Future[Envelope]) -> None:
        """The requester does not wait for this reply any more; when it comes it is counted and dropped."""
        key = request_id.encode()
        everybody = self._waiting.get(key)
        if everybody is None or waiting not in everybody:
            return
        everybody.remove(waiting)
        if not everybody:
            del self._waiting[key]

    def _on_reply(self, values: Sequence[bytes]) -> None:
        if len(values) != REPLY_VALUES:
            logger.warning("the stream of replies has an entry that is no reply; it is passed over")
            return
        request_id = values[0]
        if values[NOTICE]:
            self._nested.notify(request_id.decode())
            return
        everybody = self._waiting.pop(request_id, None)
        if everybody is None:
            self.late += 1
            return
        try:
            answer = decode(values, self._limits)
        except DecodeError as error:
            _fail(everybody, error)
            return
        for waiting in everybody:
            if not waiting.done():
                waiting.set_result(answer)

    async def close(self) -> None:
        """Hears no reply any more; requesters that wait for one get ConnectionLostError."""
        await self._replies.close()
        error = ConnectionLostError(self._link.endpoint.shown, "closed before the reply came")
        _fail(chain.from_iterable(self._waiting.values()), error)
        self._waiting.clear()


def _fail(futures: Iterable[asyncio.Future[Envelope]], error: Exception) -> None:
    for waiting in futures:
        if not waiting.done():
            waiting.set_exception(error)
            waiting.exception()  # seen: when its requester is gone asyncio would complain that it was never retrieved


def _pass_error(waiting: asyncio.Future[Envelope], sent: asyncio.Future[Any]) -> None:
    if waiting.done() or sent.cancelled():
        return
    error = sent.exception()
    if error is not None:
        waiting.set_exception(error)


class RequestArrival(asyncio.Future[bool]):
    """Done when a request is in its stream; when it can't get there, the requester gets the error.

    Not a callback, which would be called for every request that arrives as well.
    """

    __slots__ = ("_waiting",)

    _waiting: asyncio.Future[Envelope]

    @classmethod
    def of(cls, waiting: asyncio.Future[Envelope], loop: asyncio.AbstractEventLoop) -> RequestArrival:
        """The arrival of a request whose reply is waited for. An `__init__` in Python takes as long as all the rest."""
        made = cls(loop=loop)
        made._waiting = waiting
        return made

    def set_exception(self, exception: type | BaseException, /) -> None:
        """Tells the requester, too."""
        super().set_exception(exception)
        if not self._waiting.done():
            self._waiting.set_exception(exception)


BATCH: Final = 100  # requests in one read
START: Final = "0-0"  # before the first one


class NestedPlace(NamedTuple):
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
        """The activation that listens with this event does so no more."""
        everybody = self._listening.get(request_id, [])
        if event in everybody:
            everybody.remove(event)
        if not everybody:
            self._listening.pop(request_id, None)

    def notify(self, request_id: str) -> None:
        """Something came for a request of this process."""
        for event in self._listening.get(request_id, ()):
            event.set()

    async def read(self, place: NestedPlace, after: str) -> list[tuple[str, list[bytes]]]:
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

    async def ending(self, place: NestedPlace, entry: str) -> str:
        """How an earlier run of the activation ended an entry: "ok", "failed", or "" when it did not."""
        key = self._link.keys.of(f"once:{place.agent_type}:{place.message_id}")
        found = await self._link.patiently(lambda: self._link.command("HGET", key, f"!{entry}"))
        return found.decode() if found else ""

    async def answer(self, place: NestedPlace, entry: str, ending: str, reply: Posting) -> None:
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
