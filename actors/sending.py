"""Sending: messages become postings, which leave at once or with the commit of the running handler."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from broker import AgentId, MessageRegistry, TopicId
from broker.claims import Claim, Pointer, is_set_aside
from broker.codec import event_head, request_head
from broker.envelope import Route
from broker.errors import RequestTimeoutError, UndeliverableError
from broker.ids import IdSource
from broker.limits import Limits, unpack
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
from .runtime_errors import ChainTooDeepError, DeadlockError, ScheduleError

if TYPE_CHECKING:
    from .runtime_protocol import AgentRuntime

logger = logging.getLogger("callboard.actors")

REMEMBERED = 60_000  # ms beyond its deadline for which a request stays cancelled
PATIENCE = 1.0  # seconds that a cancelled caller waits until the server knows of it
DEEPEST_CHAIN = 32  # requests within requests, where agents may be asked while they wait


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
        self._limits = Limits.of(transport.settings)
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
        claim_check: bool | None = None,
    ) -> None:
        """See AgentRuntime.publish_message."""
        if token is not None and token.is_cancelled():
            raise asyncio.CancelledError("the token was cancelled before the message left")
        if self._interventions:
            message = await self._intercepted(message, topic_id, sender, token, message_id)
            if message is None:
                return
        posted = self._post(message, topic_id, sender, message_id, delay, at, now, claim_check)
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
        claim_check: bool | None,
    ) -> asyncio.Future[bool] | None:
        """Hands a message to the commit of the running handler, or to the publisher; without a suspension in between."""
        activation = running(self._transport)
        entry = self._registry.entry_for(message)
        body, claim = self._encode(entry, message, claim_check)
        due = _due(delay, at)
        name = message_id or (activation.next_id() if activation is not None else self._ids.next())
        cause = activation.message_id if activation is not None else None
        head = event_head(entry.version, cause, claim is not None)
        values = (name, entry.name, topic_id.source, "" if sender is None else str(sender), head, body)
        stream = keys.topic(topic_id.type)
        once = "" if message_id is None else _global(message_id)
        if activation is not None and not now:
            activation.outgoing.append(Posting(stream, due, values, once))
            if claim is not None:
                activation.claims += (claim,)
            return None
        if activation is not None and not once:
            once = activation.sends_at_once(name)
        return self._transport.post(Posting(stream, due, values, once, "", claim))

    def _encode(
        self, entry: MessageEntry, message: Any, claim_check: bool | None
    ) -> tuple[bytes, Claim | None]:
        """What the entry holds, and the bytes it points to when they go beside the stream."""
        body = entry.encode(message)
        settings = self._transport.settings
        if not claim_check and len(body) <= settings.max_payload:
            return body, None
        if not is_set_aside(len(body), claim_check, settings):
            return body, None
        claim = Claim(f"blob:{self._ids.next()}", body)
        return claim.pointer, claim

    # Asking

    async def send(
        self,
        message: Any,
        recipient: AgentId,
        sender: AgentId | None,
        token: CancellationToken | None,
        message_id: str | None,
        timeout: float | None,
        claim_check: bool | None = None,
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
        response = await self._ask(message, recipient, sender, token, message_id, timeout, claim_check)
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
        claim_check: bool | None,
    ) -> Any:
        seconds = self._transport.settings.request_timeout if timeout is None else timeout
        activation = running(self._transport)
        deadline = self._transport.now_ms() + int(seconds * 1000)
        if activation is not None and activation.deadline is not None:
            deadline = min(deadline, activation.deadline)
            seconds = max(0.0, (deadline - self._transport.now_ms()) / 1000)
        posting, route = self._request(
            message, recipient, sender, message_id, deadline, activation, token is not None, claim_check
        )
        name = str(posting.values[0])
        reentry = activation.reentry if activation is not None else None
        serving = reentry.serve(name) if reentry is not None else None
        waiting = self._handed_in(posting, recipient, route)
        if token is not None:
            token.link_future(waiting)
            self._tokens[name] = token
        timer = asyncio.get_running_loop().call_later(seconds, _time_out, waiting, str(recipient), seconds)
        add_waiting = activation.add_waiting if activation is not None else None
        if add_waiting is not None:
            add_waiting(1)
        try:
            reply = await waiting
            if serving is not None:
                await serving.catch_up()
        except UndeliverableError as error:
            raise UndeliverableException(str(error)) from error
        except asyncio.CancelledError:
            if token is not None and token.is_cancelled() and route is None:
                await self._cancel_there(name, deadline)
            raise
        finally:
            if add_waiting is not None:
                add_waiting(-1)
            timer.cancel()
            self._transport.forget(name, waiting)
            self._tokens.pop(name, None)
            if serving is not None:
                await serving.end()
        return await self._response(reply, posting)

    def _handed_in(self, posting: Posting, recipient: AgentId, route: Route | None) -> asyncio.Future[Reply]:
        if route is None:
            return self._transport.ask(posting)
        return self._transport.ask_back(posting, recipient.type, route)

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
        claim_check: bool | None,
    ) -> tuple[Posting, Route | None]:
        entry = self._registry.entry_for(message)
        body, claim = self._encode(entry, message, claim_check)
        chain: tuple[str, ...] = ()
        routes: Mapping[str, Route] | None = None
        if activation is not None:
            chain = (*activation.chain, str(activation.agent_id))
            content = body if claim is None else claim.body
            name = message_id or activation.request_id(f"{recipient}\0".encode() + content)
            routes = _routes(activation, name)
        else:
            name = message_id or self._ids.next()
        route = _way_back(str(recipient), chain, routes) if chain and str(recipient) in chain else None
        once = "" if message_id is None else _global(message_id)
        if activation is not None and not once:
            once = activation.sends_at_once(name)
        recorded = bool(once)
        process = self._transport.process
        cancellable = cancellable and route is None  # what is nested is part of its outer message
        version, is_aside = entry.version, claim is not None
        head = request_head(process, deadline, chain, recorded, version, cancellable, is_aside, routes)
        values = (name, entry.name, recipient.key, "" if sender is None else str(sender), head, body)
        stream = keys.inbox(recipient.type)
        return Posting(stream, 0, values, once, process if recorded else "", claim), route

    async def _response(self, reply: Reply, request: Posting) -> Any:
        if not reply.head:
            return self._registry.decode(reply.type.decode(), 1, reply.body, self._limits)
        head = unpack(reply.head)
        if head.get("e"):
            raise decode_error(reply.body)
        name, version = reply.type.decode(), int(head.get("v", 1))
        if not head.get("b"):
            return self._registry.decode(name, version, reply.body, self._limits)
        pointer = Pointer.read(reply.body)
        body = await self._transport.claims.fetch(pointer)
        if not request.waiting:  # else the reply is kept, for the next attempt of whoever asked
            await self._transport.claims.drop(pointer)
        return self._registry.decode(name, version, body, Limits.of_claims(self._transport.settings))


def _routes(activation: Activation, ask: str) -> Mapping[str, Route] | None:
    """How those whom a request reaches can ask back the agents that wait for it."""
    if activation.reentry is None:
        return activation.routes
    own = (activation.reentry.message_id, ask)
    return {**(activation.routes or {}), str(activation.agent_id): own}


def _way_back(recipient: str, chain: tuple[str, ...], routes: Mapping[str, Route] | None) -> Route:
    route = (routes or {}).get(recipient)
    if route is None:
        raise DeadlockError((*chain, recipient))
    if len(chain) >= DEEPEST_CHAIN:
        raise ChainTooDeepError((*chain, recipient), DEEPEST_CHAIN)
    return route


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
