"""The requests of one process, and the replies to them, which come in a stream of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any

from callboard.broker.encoding.limits import Limits
from callboard.broker.envelope import FIELDS, Envelope, Posting, Route, decode
from callboard.broker.errors import ConnectionLostError, DecodeError
from callboard.broker.redis.keys import reply

from .arrival import RequestArrival
from .connection import Link
from .follower import StreamFollower
from .nested import NestedRequests
from .publisher import Publisher

logger = logging.getLogger("callboard.broker")

REPLY_VALUES = len(FIELDS)
# A reply has none; what has one says that something came for a request of ours, see nested.py.
NOTICE = FIELDS.index("key")


class Requests:
    """Hands requests in, and gives each reply to whoever waits for it.

    Args:
        process: that asks; its stream of replies has this name.
        publisher: sends requests.
        nested: sends those to an activation that waits further up the chain.
        link: over which replies come.

    Attributes:
        late: replies for which nobody waited any more.
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
        """Hears no reply any more; whoever waits for one gets ConnectionLostError."""
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
