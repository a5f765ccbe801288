"""Sending: a message becomes an envelope, which leaves at once or with the commit of the running handler."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import Any

from callboard.broker import AgentId, MessageRegistry, TopicId
from callboard.broker.encoding.claims import Claim, Pointer, is_set_aside
from callboard.broker.encoding.limits import Limits
from callboard.broker.encoding.remote_errors import decode_error
from callboard.broker.envelope import Envelope, Posting, Route, event, request
from callboard.broker.errors import DeadlineExceededError, UndeliverableError
from callboard.broker.ids import IdSource
from callboard.broker.redis import keys
from callboard.broker.redis.client.transport import RedisTransport
from callboard.cancellation import CancellationToken
from callboard.context import MessageContext
from callboard.errors import SettingValueError, UndeliverableException
from callboard.intervention import InterventionHandler, intercept_publish, intercept_response, intercept_send
from callboard.send_options import USUAL, SendOptions

from .audience import Audience
from .deadlines import Deadlines
from .execution import Execution, running
from .request_tokens import RequestTokens
from .runs import run_of
from .schedule import LONGEST, times
from .way_back import routes_behind, way_back


class Sender:
    """The part of a runtime that sends.

    Attributes:
        entering: calls that have begun and have not handed their message in yet.
        audience: who hears what is published.
        deadlines: of the requests that wait for their replies.
        tokens: of these requests.
    """

    def __init__(
        self,
        transport: RedisTransport,
        registry: MessageRegistry,
        interventions: Sequence[InterventionHandler],
        audience: Audience,
    ) -> None:
        self.audience = audience
        self.deadlines = Deadlines()
        self.tokens = RequestTokens(transport)
        self._transport = transport
        self._registry = registry
        self._interventions = tuple(interventions)
        self._ids = IdSource()
        self._limits = Limits.of(transport.settings)
        self._max_payload = transport.settings.max_payload
        self.entering = 0

    # Publishing

    def publish(
        self,
        message: Any,
        topic_id: TopicId,
        sender: AgentId | None,
        token: CancellationToken | None,
        options: SendOptions,
    ) -> Awaitable[object] | None:
        """See AgentRuntime.publish_message. It has no coroutine of its own, for the reason of AgentHost.handle.

        Returns:
            What is to be waited for; None: it leaves with the commit of the running handler.
        """
        if token is not None and token.is_cancelled():
            raise asyncio.CancelledError("the token was cancelled before the message left")
        if self._interventions or options.strict:
            return self._publish_examined(message, topic_id, sender, token, options)
        if options.strict is None:
            self.audience.notice(message, topic_id, sender)
        return self._post(message, keys.topic(topic_id.type), topic_id.source, sender, options)

    async def _publish_examined(
        self,
        message: Any,
        topic_id: TopicId,
        sender: AgentId | None,
        token: CancellationToken | None,
        options: SendOptions,
    ) -> None:
        """The same, once interventions have passed it and, where it is strict, somebody is known to hear it."""
        if self._interventions:
            message = await self._intercepted(message, topic_id, sender, token, options)
            if message is None:
                return
        if options.strict:
            await self.audience.check(message, topic_id, sender)
        elif options.strict is None:
            self.audience.notice(message, topic_id, sender)
        posted = self.post(message, topic_id, sender, options)
        if posted is not None:
            await posted

    def post(
        self, message: Any, topic_id: TopicId, sender: AgentId | None, options: SendOptions
    ) -> asyncio.Future[bool] | None:
        """Hands an event in, as `publish` does, without asking anybody before and without waiting for it to arrive.

        Returns:
            Done when it has arrived; None: it leaves with the commit of the running handler.
        """
        return self._post(message, keys.topic(topic_id.type), topic_id.source, sender, options)

    async def tell(
        self, message: Any, recipient: AgentId, sender: AgentId | None, options: SendOptions
    ) -> None:
        """See AgentRuntime.tell. It is an event in the inbox of one agent; a reminder is one in the sender's own."""
        if options.if_buried and sender is None:
            raise SettingValueError("if_buried", "True", "left out where no agent sends the message")
        if options.cancellable and options.message_id is None:
            raise SettingValueError(
                "cancellable", "True", "given together with a message_id, to be named by it"
            )
        if self._interventions:
            ctx = MessageContext(sender, None, False, CancellationToken(), options.message_id or "")
            message = await self._sent_intercepted(message, ctx, recipient)
        # What leaves at once is refused by the server; a commit would put it where nobody ever reads.
        # guard: a commit tells nobody who does not exist
        if not options.now and running(self._transport) is not None:
            await self.audience.check_type(recipient.type)
        posted = self._post(message, keys.inbox(recipient.type), recipient.key, sender, options)
        if posted is not None:
            await posted

    async def _intercepted(
        self,
        message: Any,
        topic_id: TopicId,
        sender: AgentId | None,
        token: CancellationToken | None,
        options: SendOptions,
    ) -> Any | None:
        self.entering += 1
        try:
            message_id = options.message_id or ""
            ctx = MessageContext(sender, topic_id, False, token or CancellationToken(), message_id)
            return await intercept_publish(self._interventions, message, ctx)
        finally:
            self.entering -= 1

    def _post(
        self, message: Any, stream: str, key: str, sender: AgentId | None, options: SendOptions
    ) -> asyncio.Future[bool] | None:
        """Hands a message to the commit of the running handler, or to the publisher; without a suspension in between."""
        execution = running(self._transport)
        kind = self._registry.entry_for(message)
        body, claim = kind.encode(message, self._limits), None
        if options.claim_check or len(body) > self._max_payload:
            body, claim = self._set_aside(body, options.claim_check)
        due, expires_in = (0, None) if options is USUAL else times(options)
        if execution is None:
            name, cause = options.message_id or self._ids.next(), None
        else:
            nature = kind.nature(message) if options.now else ""
            name, cause = options.message_id or execution.next_id(nature), execution.envelope.id
        author = None if sender is None else str(sender)
        is_aside, run = claim is not None, run_of(execution)
        told, off = options.if_buried, options.cancellable
        # fmt: off
        envelope = event(
            name, kind.name, key, author, body, cause, expires_in, kind.version, is_aside, run, told, off
        )
        # fmt: on
        idempotency_id = _idempotency_id(options)
        if execution is not None:
            # guard: what a handler publishes waits for its commit
            if not options.now:
                posting = tuple.__new__(Posting, (envelope, stream, due, idempotency_id, "", claim, None))
                execution.outgoing.append(posting)
                return None
            idempotency_id = idempotency_id or execution.sends_at_once(name)
        fence = None if execution is None else execution.fence
        # Posting's own constructor takes twice as long, and one is made for every message.
        posting = tuple.__new__(Posting, (envelope, stream, due, idempotency_id, "", claim, fence))
        return self._transport.publisher.post(posting)

    def _set_aside(self, body: bytes, claim_check: bool | None) -> tuple[bytes, Claim | None]:
        """What the envelope holds, and the bytes it points to when they go beside the stream."""
        if not is_set_aside(len(body), claim_check, self._transport.settings):
            return body, None
        claim = Claim(f"blob:{self._ids.next()}", body)
        return claim.pointer, claim

    # Asking

    def send(
        self,
        message: Any,
        recipient: AgentId,
        sender: AgentId | None,
        token: CancellationToken | None,
        options: SendOptions,
    ) -> Coroutine[Any, Any, Any]:
        """See AgentRuntime.send_message. It has no coroutine of its own, for the reason of AgentHost.handle."""
        if token is not None and token.is_cancelled():
            raise asyncio.CancelledError("the token was cancelled before the request left")
        ask = self._ask_intercepted if self._interventions else self._ask
        return ask(message, recipient, sender, token, options)

    async def _ask_intercepted(
        self,
        message: Any,
        recipient: AgentId,
        sender: AgentId | None,
        token: CancellationToken | None,
        options: SendOptions,
    ) -> Any:
        ctx = MessageContext(sender, None, True, token or CancellationToken(), options.message_id or "")
        message = await self._sent_intercepted(message, ctx, recipient)
        response = await self._ask(message, recipient, sender, token, options)
        return await intercept_response(self._interventions, response, recipient, sender)

    async def _sent_intercepted(self, message: Any, ctx: MessageContext, recipient: AgentId) -> Any:
        self.entering += 1
        try:
            return await intercept_send(self._interventions, message, ctx, recipient)
        finally:
            self.entering -= 1

    async def _ask(
        self,
        message: Any,
        recipient: AgentId,
        sender: AgentId | None,
        token: CancellationToken | None,
        options: SendOptions,
    ) -> Any:
        execution = running(self._transport)
        deadline, seconds = self._deadline(execution, options)
        while True:
            posting, route = self._request(
                message, recipient, sender, deadline, execution, token is not None, options
            )
            reply = await self._reply(posting, route, recipient, token, seconds, execution)
            # What an attempt before has asked counts with its deadline, and was never begun: that is no reply to this one.
            # guard: a request that expired is asked anew
            if reply.error and posting.waiting and not options.message_id and _is_expired(reply, posting):
                seconds = (deadline - self._transport.now_ms()) / 1000
                if seconds > 0:
                    continue
            return await self._response(reply, posting)

    async def _reply(
        self,
        posting: Posting,
        route: Route | None,
        recipient: AgentId,
        token: CancellationToken | None,
        seconds: float,
        execution: Execution | None,
    ) -> Envelope:
        """Hands a request in and waits for its reply."""
        name = posting.envelope.id
        door = execution.door if execution is not None else None
        serving = door.serve(name) if door is not None else None
        waiting = self._handed_in(posting, recipient, route)
        if token is not None:
            token.link_future(waiting)
            self.tokens.add(name, token)
        self.deadlines.add(waiting, recipient, seconds)
        worker = execution.worker if execution is not None else None
        asked = recipient.type if route is None else ""
        if worker is not None:
            worker.add_waiting(1, asked)
        try:
            reply = await waiting
            if serving is not None:
                await serving.catch_up()
        except UndeliverableError as error:
            raise UndeliverableException(str(error)) from error
        except asyncio.CancelledError:
            if token is not None and token.is_cancelled() and route is None:
                await self.tokens.cancel_there(name, posting.envelope.deadline or 0)
            raise
        finally:
            if worker is not None:
                worker.add_waiting(-1, asked)
            self.deadlines.remove(waiting)
            self._transport.requests.forget(name, waiting)
            if token is not None:
                self.tokens.remove(name, token)
            if serving is not None:
                await serving.end()
        return reply

    def _deadline(self, execution: Execution | None, options: SendOptions) -> tuple[int, float]:
        """Until when the caller waits, server ms; and how many seconds that is."""
        seconds = self._transport.settings.request_timeout if options.timeout is None else options.timeout
        seconds = min(seconds, LONGEST)
        now = self._transport.now_ms()
        deadline = now + int(seconds * 1000)
        outer = execution.envelope.deadline if execution is not None else None
        if outer is None:
            return deadline, seconds
        deadline = min(deadline, outer)
        return deadline, max(0.0, (deadline - now) / 1000)

    def _request(
        self,
        message: Any,
        recipient: AgentId,
        sender: AgentId | None,
        deadline: int,
        execution: Execution | None,
        cancellable: bool,
        options: SendOptions,
    ) -> tuple[Posting, Route | None]:
        kind = self._registry.entry_for(message)
        body, claim = kind.encode(message, self._limits), None
        if options.claim_check or len(body) > self._max_payload:
            body, claim = self._set_aside(body, options.claim_check)
        chain: tuple[str, ...] = ()
        routes: Mapping[str, Route] | None = None
        if execution is None:
            name = options.message_id or self._ids.next()
        else:
            chain = (*execution.envelope.chain, str(execution.agent_id))
            content = body if claim is None else claim.body
            name = options.message_id or execution.request_id(f"{recipient}\0".encode() + content)
            routes = routes_behind(execution, name)
        route = way_back(str(recipient), chain, routes) if chain and str(recipient) in chain else None
        idempotency_id = "" if options.message_id is None else _global(options.message_id)
        if execution is not None and not idempotency_id:
            idempotency_id = execution.sends_at_once(name)
        envelope = request(
            name,
            kind.name,
            recipient.key,
            None if sender is None else str(sender),
            body,
            self._transport.process,
            bool(idempotency_id),
            chain,
            deadline,
            cancellable and route is None,  # what is nested is part of its outer message
            kind.version,
            claim is not None,
            routes,
            run_of(execution),
        )
        waiting = self._transport.process if idempotency_id else ""
        fence = None if execution is None else execution.fence
        stream = keys.inbox(recipient.type)
        posting = tuple.__new__(Posting, (envelope, stream, 0, idempotency_id, waiting, claim, fence))
        return posting, route

    def _handed_in(
        self, posting: Posting, recipient: AgentId, route: Route | None
    ) -> asyncio.Future[Envelope]:
        if route is None:
            return self._transport.requests.ask(posting)
        return self._transport.requests.ask_back(posting, recipient.type, route)

    async def _response(self, reply: Envelope, posting: Posting) -> Any:
        if reply.error:
            raise decode_error(reply.body)
        if not reply.claimed:
            return self._registry.decode(reply.type, reply.version, reply.body, self._limits)
        pointer = Pointer.read(reply.body)
        body = await self._transport.claims.fetch(pointer)
        if not posting.waiting:  # else the reply is kept, for the next attempt of the handler that asked
            await self._transport.claims.drop(pointer)
        return self._registry.decode(
            reply.type, reply.version, body, Limits.of_claims(self._transport.settings)
        )


def _is_expired(reply: Envelope, posting: Posting) -> bool:
    """Whether a request was not begun since its deadline had passed. The error may also be that of one further down."""
    error = decode_error(reply.body)
    return isinstance(error, DeadlineExceededError) and error.message_id == posting.envelope.id


def _idempotency_id(options: SendOptions) -> str:
    """Under which the server accepts an event once; "": the id is new, or its sender knows that it is."""
    return "" if options.message_id is None or options.unique else _global(options.message_id)


def _global(message_id: str) -> str:
    """The idempotency id for an id that a person or program chose; one that begins with `>` has another meaning."""
    return f"={message_id}" if message_id.startswith(">") else message_id
