"""Sending: messages become postings, which leave at once or with the commit of the running handler."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from broker import AgentId, MessageRegistry, TopicId
from broker.codec import event_head, request_head
from broker.errors import (
    PayloadTooLargeError,
    RequestTimeoutError,
    UndeliverableError,
)
from broker.ids import IdSource
from broker.payload import MessageEntry
from broker.redis import keys
from broker.redis.publisher import Posting
from broker.redis.transport import RedisTransport, Reply
from broker.remote_errors import decode_error

from .activation import Activation, running
from .cancellation import CancellationToken
from .context import MessageContext
from .errors import UndeliverableException
from .intervention import InterventionHandler, intercept_publish, intercept_response, intercept_send
from .runtime_errors import DeadlockError, ScheduleError

if TYPE_CHECKING:
    from .runtime_protocol import AgentRuntime

logger = logging.getLogger("callboard.actors")

REMEMBERED = 60_000  # ms beyond its deadline for which a request stays cancelled
PATIENCE = 1.0  # seconds that a cancelled caller waits until the server knows of it


class Sender:
    """What of a runtime sends.

    Attributes:
        entering: calls that have begun and have not handed their message in yet.
    """

    def __init__(
        self,
        runtime: AgentRuntime,
        transport: RedisTransport,
        registry: MessageRegistry,
        interventions: Sequence[InterventionHandler],
    ) -> None:
        self._runtime = runtime
        self._transport = transport
        self._registry = registry
        self._interventions = tuple(interventions)
        self._ids = IdSource()
        self._tokens: dict[str, CancellationToken] = {}
        self._orders: set[asyncio.Future[bool]] = set()
        self.entering = 0

    def token_of(self, message_id: str) -> CancellationToken | None:
        """The token of a request that was sent from this process."""
        return self._tokens.get(message_id)

    # Publishing

    async def publish(
        self,
        message: Any,
        topic_id: TopicId,
        sender: AgentId | None,
        token: CancellationToken | None,
        message_id: str | None,
        delay: float | None,
        at: datetime | None,
        now: bool,
    ) -> None:
        """See AgentRuntime.publish_message."""
        if token is not None and token.is_cancelled():
            raise asyncio.CancelledError("the token was cancelled before the message left")
        if self._interventions:
            message = await self._intercepted(message, topic_id, sender, token, message_id)
            if message is None:
                return
        posted = self._post(message, topic_id, sender, message_id, delay, at, now)
        if posted is not None:
            await posted

    async def _intercepted(
        self,
        message: Any,
        topic_id: TopicId,
        sender: AgentId | None,
        token: CancellationToken | None,
        message_id: str | None,
    ) -> Any | None:
        self.entering += 1
        try:
            ctx = MessageContext(sender, topic_id, False, token or CancellationToken(), message_id or "")
            return await intercept_publish(self._interventions, message, ctx)
        finally:
            self.entering -= 1

    def _post(
        self,
        message: Any,
        topic_id: TopicId,
        sender: AgentId | None,
        message_id: str | None,
        delay: float | None,
        at: datetime | None,
        now: bool,
    ) -> asyncio.Future[bool] | None:
        """Hands a message to the commit of the running handler, or to the publisher; without a suspension in between."""
        activation = running(self._transport)
        entry = self._registry.entry_for(message)
        body = self._encode(entry, message)
        due = _due(delay, at)
        name = message_id or (activation.next_id() if activation is not None else self._ids.next())
        head = event_head(entry.version, activation.message_id if activation is not None else None)
        values = (name, entry.name, topic_id.source, "" if sender is None else str(sender), head, body)
        stream = keys.topic(topic_id.type)
        once = "" if message_id is None else _global(message_id)
        if activation is not None and not now:
            activation.outgoing.append(Posting(stream, due, values, once))
            return None
        if activation is not None and not once:
            once = activation.sends_at_once(name)
        return self._transport.post(Posting(stream, due, values, once))

    def _encode(self, entry: MessageEntry, message: Any) -> bytes:
        body = entry.encode(message)
        limit = self._transport.settings.max_payload
        if len(body) > limit:
            raise PayloadTooLargeError(len(body), limit)
        return body

    # Asking

    async def send(
        self,
        message: Any,
        recipient: AgentId,
        sender: AgentId | None,
        token: CancellationToken | None,
        message_id: str | None,
        timeout: float | None,
    ) -> Any:
        """See AgentRuntime.send_message."""
        if token is not None and token.is_cancelled():
            raise asyncio.CancelledError("the token was cancelled before the request left")
        if self._interventions:
            self.entering += 1
            try:
                ctx = MessageContext(sender, None, True, token or CancellationToken(), message_id or "")
                message = await intercept_send(self._interventions, message, ctx, recipient)
            finally:
                self.entering -= 1
        response = await self._ask(message, recipient, sender, token, message_id, timeout)
        if self._interventions:
            response = await intercept_response(self._interventions, response, recipient, sender)
        return response

    async def _ask(
        self,
        message: Any,
        recipient: AgentId,
        sender: AgentId | None,
        token: CancellationToken | None,
        message_id: str | None,
        timeout: float | None,
    ) -> Any:
        seconds = self._transport.settings.request_timeout if timeout is None else timeout
        activation = running(self._transport)
        deadline = self._transport.now_ms() + int(seconds * 1000)
        if activation is not None and activation.deadline is not None:
            deadline = min(deadline, activation.deadline)
            seconds = max(0.0, (deadline - self._transport.now_ms()) / 1000)
        posting = self._request(
            message, recipient, sender, message_id, deadline, activation, token is not None
        )
        name = str(posting.values[0])
        waiting = self._transport.ask(posting)
        if token is not None:
            token.link_future(waiting)
            self._tokens[name] = token
        timer = asyncio.get_running_loop().call_later(seconds, _time_out, waiting, str(recipient), seconds)
        add_waiting = activation.add_waiting if activation is not None else None
        if add_waiting is not None:
            add_waiting(1)
        try:
            reply = await waiting
        except UndeliverableError as error:
            raise UndeliverableException(str(error)) from error
        except asyncio.CancelledError:
            if token is not None and token.is_cancelled():
                await self._cancel_there(name, deadline)
            raise
        finally:
            if add_waiting is not None:
                add_waiting(-1)
            timer.cancel()
            self._transport.forget(name, waiting)
            self._tokens.pop(name, None)
        return self._response(reply)

    async def _cancel_there(self, name: str, deadline: int) -> None:
        """Once the caller learns that its request is cancelled, nothing of it is committed any more.

        When the server can't be told, the request may still be carried out, as after a timeout.
        """
        order = asyncio.ensure_future(self._transport.order("cancel", name, deadline + REMEMBERED))
        self._orders.add(order)
        order.add_done_callback(self._told)
        await asyncio.wait({order}, timeout=PATIENCE)

    def _told(self, order: asyncio.Future[bool]) -> None:
        self._orders.discard(order)
        if not order.cancelled() and (error := order.exception()) is not None:
            logger.warning("the server could not be told that a request is cancelled: %s", error)

    def _request(
        self,
        message: Any,
        recipient: AgentId,
        sender: AgentId | None,
        message_id: str | None,
        deadline: int,
        activation: Activation | None,
        cancellable: bool,
    ) -> Posting:
        entry = self._registry.entry_for(message)
        body = self._encode(entry, message)
        chain: tuple[str, ...] = ()
        if activation is not None:
            chain = (*activation.chain, str(activation.agent_id))
            if str(recipient) in chain:
                raise DeadlockError((*chain, str(recipient)))
            name = message_id or activation.request_id(f"{recipient}\0".encode() + body)
        else:
            name = message_id or self._ids.next()
        once = "" if message_id is None else _global(message_id)
        if activation is not None and not once:
            once = activation.sends_at_once(name)
        recorded = bool(once)
        process = self._transport.process
        head = request_head(process, deadline, chain, recorded, entry.version, cancellable)
        values = (name, entry.name, recipient.key, "" if sender is None else str(sender), head, body)
        stream = keys.inbox(recipient.type)
        return Posting(stream, 0, values, once, process if recorded else "")

    def _response(self, reply: Reply) -> Any:
        if not reply.head:
            return self._registry.decode(reply.type.decode(), 1, reply.body)
        from broker.limits import unpack

        head = unpack(reply.head)
        if head.get("e"):
            raise decode_error(reply.body)
        return self._registry.decode(reply.type.decode(), int(head.get("v", 1)), reply.body)


def _global(message_id: str) -> str:
    """The idempotency id for an id that a person or program chose; one that begins with `>` has another meaning."""
    return f"={message_id}" if message_id.startswith(">") else message_id


def _due(delay: float | None, at: datetime | None) -> int:
    if delay is not None and at is not None:
        raise ScheduleError("give delay or at, not both")
    if delay is not None:
        if not 0 <= delay < 10**8:
            raise ScheduleError(f"delay={delay} has to be seconds, 0 or more")
        return int(delay * 1000)
    if at is None:
        return 0
    if at.tzinfo is None:
        raise ScheduleError("at= needs a time zone, such as datetime.now(UTC) + timedelta(minutes=5)")
    return max(0, int(at.timestamp() * 1000))


def _time_out(waiting: asyncio.Future[Reply], recipient: str, seconds: float) -> None:
    if not waiting.done():
        waiting.set_exception(RequestTimeoutError(recipient, seconds))
