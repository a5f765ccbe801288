"""The way of a message out: options and address, who hears it, its envelope, at once or with the handler's commit.

What the runtime's own agent types subscribe to and handle is known here, and is nearly always enough. Only for a topic
and a class of messages that none of them hears the server is asked, once and beside the publishing, which never waits
for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Collection, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from callboard.broker import AgentId, AgentType, MessageRegistry, TopicId
from callboard.broker.envelope import Claim, Envelope, Pointer, Posting, Route, event, is_set_aside, request
from callboard.broker.errors import (
    BrokerError,
    DeadlineExceededError,
    InvalidIdError,
    RequestTimeoutError,
    UndeliverableError,
)
from callboard.broker.ids import AGENT_TYPE, IdSource
from callboard.broker.limits import Limits
from callboard.broker.redis import keys
from callboard.broker.redis.client.transport import RedisTransport, subscribers_of
from callboard.broker.remote_errors import decode_error
from callboard.broker.subscriptions import SubscriptionTable, TypeSubscription
from callboard.core.cancellation import CancellationToken
from callboard.core.context import MessageContext
from callboard.core.intervention import (
    InterventionHandler,
    intercept_publish,
    intercept_response,
    intercept_send,
)
from callboard.core.protocol import USUAL, SendOptions
from callboard.core.subscriptions import DefaultTopicId
from callboard.errors import SettingValueError, UndeliverableException, UnheardError, did_you_mean

from .agents import LocalAgents
from .execution import Execution, run_of, running
from .reports import LoggedInterventions, MessageLog
from .requests import RequestTokens, routes_behind, way_back

logger = logging.getLogger("callboard.actors")

LONGEST = 10**8  # seconds that a message may wait


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
        log = MessageLog.if_heard()
        self._interventions = (
            tuple(interventions) if log is None else (LoggedInterventions(log, interventions),)
        )
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
        return self._post(message, keys.TOPIC + topic_id.type, topic_id.source, sender, options)

    async def _publish_examined(
        self,
        message: Any,
        topic_id: TopicId,
        sender: AgentId | None,
        token: CancellationToken | None,
        options: SendOptions,
    ) -> None:
        """The same, once interventions have passed it and, where it is strict, a subscriber is known to hear it."""
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
        return self._post(message, keys.TOPIC + topic_id.type, topic_id.source, sender, options)

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
        # What leaves at once is refused by the server; a commit would put it where no worker ever reads.
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
        run = run_of(execution)
        due, expires_in, idempotency_id = 0, None, ""
        if options is not USUAL:
            due, expires_in = times(options)
            idempotency_id = _idempotency_id(options)
        kind = self._registry.entry_for(message)
        body, claim = kind.encode(message, self._limits), None
        if options.claim_check or len(body) > self._max_payload:
            body, claim = self._set_aside(body, options.claim_check)
        if execution is None:
            name, cause = options.message_id or self._ids.next(), None
        else:
            nature = kind.nature(message) if options.now else ""
            name, cause = options.message_id or execution.next_id(nature), execution.envelope.id
        author = None if sender is None else str(sender)
        is_aside = claim is not None
        told, off = options.if_buried, options.cancellable
        # fmt: off
        envelope = event(
            name, kind.name, key, author, body, cause, expires_in, kind.version, is_aside, run, told, off
        )
        # fmt: on
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
        """The body of the envelope, and the bytes it points to when they go beside the stream."""
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


# Topics, agents and times as callers give them


def topic_of(given: object) -> TopicId:
    """The topic of a publish.

    Args:
        given: the topic; `type/source`; or a type alone, whose source is that of a DefaultTopicId.

    Raises:
        InvalidIdError: it is something else, or its type is not valid (a ValueError).
    """
    if isinstance(given, TopicId):
        return given
    if isinstance(given, str):
        return TopicId.from_str(given) if "/" in given else DefaultTopicId(given)
    raise InvalidIdError(
        "topic", given, "a type and a source, such as TopicId('orders', 'default'), or 'orders'"
    )


def agent_of(given: object) -> AgentId:
    """The agent that a message is for.

    Args:
        given: its id, or `type/key`. A type alone could mean any key, so it is refused.

    Raises:
        InvalidIdError: it is something else, or its type is not valid (a ValueError).
    """
    if isinstance(given, AgentId):
        return given
    if isinstance(given, str) and "/" in given:
        return AgentId.from_str(given)
    text = str(given) if isinstance(given, str | AgentType) else ""
    name = text if AGENT_TYPE.match(text) else "counter"
    rule = f"a type and a key, such as AgentId({name!r}, 'default') or '{name}/default'"
    raise InvalidIdError("recipient", given, rule)


def times(options: SendOptions) -> tuple[int, int | None]:
    """When a message is due, as a Posting has it, and how many ms later it expires.

    Raises:
        SettingValueError: it can't be sent at that time.
    """
    seconds = options.expires_in
    due = 0 if options.delay is None and options.at is None else _due(options)
    if seconds is None:
        return due, None
    if not _is_seconds(seconds) or seconds == 0:
        raise SettingValueError(
            "expires_in", _shown(seconds), f"seconds, more than 0 and less than {LONGEST:.0f}"
        )
    return due, max(1, int(seconds * 1000))


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value < LONGEST


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, float | str) else str(value)[:40]


def _due(options: SendOptions) -> int:
    delay, at = options.delay, options.at
    if delay is not None and at is not None:
        raise SettingValueError("delay", _shown(delay), "left out where a time is given, `at`")
    if delay is not None:
        if not _is_seconds(delay):
            raise SettingValueError("delay", _shown(delay), f"seconds, 0 or more and less than {LONGEST:.0f}")
        return int(delay * 1000)
    if at is None:
        return 0
    # Programs without a type checker give a number of seconds since 1970, or a text.
    if not isinstance(at, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SettingValueError("at", _shown(at), "a datetime, such as datetime.fromtimestamp(seconds, UTC)")
    if at.tzinfo is None:
        raise SettingValueError(
            "at", str(at), "a time with its zone, such as datetime.now(UTC) + timedelta(minutes=5)"
        )
    return min(0, -int(at.timestamp() * 1000))


# The deadlines of requests


class Deadlines:
    """Fails what is waited for too long.

    There is one timer for all of it: nearly every reply comes in time, and a timer of its own costs a request as much as its
    envelope does.
    """

    def __init__(self) -> None:
        self._waits: dict[asyncio.Future[Any], tuple[float, AgentId, float]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._at = math.inf

    def add(self, waiting: asyncio.Future[Any], recipient: AgentId, seconds: float) -> None:
        """Fails this future with RequestTimeoutError when it is not done in so many seconds; `remove` it in the end."""
        loop = waiting.get_loop()
        until = loop.time() + seconds
        self._waits[waiting] = (until, recipient, seconds)
        if until < self._at:
            self._wake_at(until, loop)

    def remove(self, waiting: asyncio.Future[Any]) -> None:
        """Forgets it: it is not waited for any more."""
        self._waits.pop(waiting, None)

    def _wake_at(self, until: float, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = until
        self._timer = loop.call_at(until, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Fails what is late, and looks again when the next one is."""
        self._timer, self._at = None, math.inf
        now = loop.time()
        for waiting, (until, recipient, seconds) in list(self._waits.items()):
            if waiting.done():
                continue
            if until <= now:
                waiting.set_exception(RequestTimeoutError(str(recipient), seconds))
            elif until < self._at:
                self._at = until
        if self._at < math.inf:
            self._wake_at(self._at, loop)

    def close(self) -> None:
        """Fails nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


# Who hears a message

REMEMBERED = 10_000  # cases that are known; then they are looked at again
AT_ONCE = 50  # cases that the server is asked about together; more are looked at when they come again
PAUSE = 1.0  # seconds between two times that the server is asked
PATIENCE = 1.0  # seconds that closing waits for what was asked


class Case(NamedTuple):
    """A class of messages and a topic type: all messages of one case are heard alike.

    Attributes:
        topic: topic type.
        message_class: class of the message.
        own_type: agent type of the sender, if its own key is the topic's source, so that it would not hear it; else None.
    """

    topic: str
    message_class: type[Any]
    own_type: str | None


class Audience:
    """Knows who hears what.

    Args:
        transport: the connection to the server.
        subscriptions: those of this process.
        agents: its agent types.
    """

    def __init__(
        self, transport: RedisTransport, subscriptions: SubscriptionTable, agents: LocalAgents
    ) -> None:
        self._transport = transport
        self._subscriptions = subscriptions
        self._agents = agents
        self._most_kept = transport.settings.max_unclaimed
        self._known: set[Case] = set()
        self._told: set[str] = set()
        self._known_types: set[str] = set()
        self._open: list[Case] = []
        self._not_before = 0.0
        self._task: asyncio.Task[None] | None = None

    def notice(self, message: Any, topic_id: TopicId, sender: AgentId | None) -> None:
        """Looks at a message that is published; warns, a little later, if no agent hears it."""
        own_type = sender.type if sender is not None and sender.key == topic_id.source else None
        # A plain tuple is equal to the Case, and made in a quarter of the time.
        if (topic_id.type, message.__class__, own_type) not in self._known:
            self._look_at(Case(topic_id.type, message.__class__, own_type))

    async def check(self, message: Any, topic_id: TopicId, sender: AgentId | None) -> None:
        """Refuses a message that no agent would hear.

        Raises:
            UnheardError: none would.
            ServerUnavailableError, CommandError: the server has to know it, and can't be asked.
        """
        own_type = sender.type if sender is not None and sender.key == topic_id.source else None
        reason = await self.silence(Case(topic_id.type, message.__class__, own_type))
        if reason is not None:
            raise UnheardError(str(topic_id), reason)

    async def check_type(self, agent_type: str) -> None:
        """Refuses a message to an agent of a type that no process ever declared. The server is asked once for each type.

        Raises:
            UndeliverableError: there is no such agent type (a LookupError).
            ServerUnavailableError, CommandError: the server has to know it, and can't be asked.
        """
        if agent_type in self._agents or agent_type in self._known_types:
            return
        name = self._transport.keys.of("types")
        if not await self._transport.admin.command("HEXISTS", name, agent_type):
            raise UndeliverableError(agent_type)
        if len(self._known_types) >= REMEMBERED:
            self._known_types.clear()
        self._known_types.add(agent_type)

    async def silence(self, case: Case) -> str | None:
        """Why no agent hears messages of a case; None when one may."""
        if self._is_heard(case, self._subscribers_here(case.topic)):
            return None
        subscribers = (await subscribers_of(self._transport.admin, [case.topic]))[case.topic]
        reason = self._reason_if_unheard(case, subscribers)
        if reason is not None:
            self._told.add(reason)
        return reason

    def _look_at(self, case: Case) -> None:
        if len(self._open) >= AT_ONCE:
            return  # it is looked at when it comes again
        if len(self._known) >= REMEMBERED:
            self._known.clear()
            self._told.clear()
        self._known.add(case)
        if self._is_heard(case, self._subscribers_here(case.topic)):
            return
        self._open.append(case)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="callboard-audience")

    def _subscribers_here(self, topic: str) -> set[str]:
        topic_id = TopicId(topic, "")
        return {one.agent_type for one in self._subscriptions if one.is_match(topic_id)}

    def _reason_if_unheard(self, case: Case, subscribers: Collection[str]) -> str | None:
        return None if self._is_heard(case, subscribers) else self._reason(case, subscribers)

    def _is_heard(self, case: Case, subscribers: Collection[str]) -> bool:
        # Of a type that runs elsewhere it can't be known what it handles: it may be this.
        return any(
            self._agents.hears(agent_type, case.message_class) is not False
            for agent_type in subscribers
            if agent_type != case.own_type
        )

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._open:
            await asyncio.sleep(max(0.0, self._not_before - loop.time()))
            self._not_before = loop.time() + PAUSE
            await self._ask()

    async def _ask(self) -> None:
        while self._open:
            cases = list(self._open)
            topics = list(dict.fromkeys(case.topic for case in cases))
            # Who can't be asked says nothing; publishing itself tells of it.
            with contextlib.suppress(BrokerError):
                subscribers = await subscribers_of(self._transport.admin, topics)
                for case in cases:
                    self._tell(self._reason_if_unheard(case, subscribers[case.topic]))
            del self._open[: len(cases)]

    def _tell(self, reason: str | None) -> None:
        if reason is not None and reason not in self._told:
            self._told.add(reason)
            logger.warning("%s", reason)

    def _reason(self, case: Case, subscribers: Collection[str]) -> str:
        topic, message_class, own_type = case
        others = sorted(set(subscribers) - {own_type})
        if others:
            who = ", ".join(others)
            name = message_class.__name__
            return (
                f"{name} is published to {topic!r}, and of its subscribers ({who}) none handles it: "
                f"give one of them a method with @event and `message: {name}`"
            )
        if own_type is not None and subscribers:
            return (
                f"{own_type} publishes to {topic!r} what only it itself would hear, and an agent does not hear what it "
                "publishes: await self.remind(message) sends a message to itself"
            )
        kept = f"what is published there waits for who subscribes first, the newest {self._most_kept:,} of it"
        return f"nothing subscribes to the topic {topic!r} ({kept}). {self._advice(topic)}".rstrip()

    def _advice(self, topic: str) -> str:
        known = {one.topic_type for one in self._subscriptions if isinstance(one, TypeSubscription)}
        advice = did_you_mean(topic, known)
        return advice if advice.startswith("Did") else ""

    async def close(self) -> None:
        """Asks what is still to be asked, without a pause, so that a short program is told as well."""
        task, self._task = self._task, None
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task})
        if self._open:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._ask()
