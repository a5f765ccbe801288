"""Handles deliveries: decode, find or make the agent, run its handler, and say how it ended."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from broker import AgentId, BrokerSettings, MessageRegistry, TopicId
from broker.claims import Pointer
from broker.codec import from_values
from broker.delivery import Delivery
from broker.envelope import Envelope
from broker.errors import (
    BrokerError,
    ConnectionLostError,
    DeadlineExceededError,
    UnknownMessageError,
    UnsupportedVersionError,
)
from broker.limits import Limits
from broker.outcome import NOTHING, Commit, DeadLetter, ErrorInfo, Outcome, Release, Retry, Wait
from broker.redis.lane import Turn
from broker.redis.nested import Place
from broker.redis.transport import RedisTransport
from broker.retry import RetryPolicy
from broker.telemetry import is_watched

from .activation import Activation, current
from .cancellation import CancellationToken
from .context import MessageContext, MessageHandlerContext
from .local_agents import LocalAgents
from .once import Recorder
from .reentry import Journal, Outer, Reentry
from .registration import AgentTypeEntry, LiveAgent
from .replies import error_reply_to, fetch_message, reply_to
from .runtime_errors import MaxRuntimeError
from .state import dump_state
from .watching import watched

logger = logging.getLogger("callboard.actors")

RESET = b"callboard.reset"
MOST_CANCELLED = 1000  # cancelled requests that are remembered until they come to their turn


class CancellableRequest:
    """A request that is being handled and may be cancelled from another process."""

    def __init__(self, task: asyncio.Task[Any], token: CancellationToken) -> None:
        self._task = task
        self._token = token
        self._is_cancelled = False
        self._has_ended = False

    def cancel(self) -> None:
        """Its handler gets CancelledError; its token, and what the handler passed it on to, is cancelled first."""
        if not self._is_cancelled and not self._has_ended:
            self._is_cancelled = True
            try:
                self._token.cancel()
            finally:
                self._task.cancel("cancelled by its sender")

    def ends(self) -> bool:
        """The handler is over, so that its task goes on; whether it was cancelled."""
        if not self._has_ended and self._is_cancelled:
            self._task.uncancel()
        self._has_ended = True
        return self._is_cancelled


def _is_newer(error: BrokerError) -> bool:
    return isinstance(error, UnsupportedVersionError) and error.version > max(error.accepted)


def _is_own(entry: AgentTypeEntry, envelope: Envelope) -> bool:
    """Whether an agent published this itself: it does not receive it."""
    return envelope.sender == f"{entry.type}/{envelope.key}"


def _is_being_cancelled() -> bool:
    """Whether this task is told to end; a handler may also raise CancelledError because what it awaited was cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class AgentHost:
    """The consumer's host for one worker: every failure becomes an outcome."""

    def __init__(
        self,
        agents: LocalAgents,
        registry: MessageRegistry,
        settings: BrokerSettings,
        *,
        declare: Callable[[], Awaitable[None]],
        transport: RedisTransport,
        on_turn: Callable[[Turn], None],
        token_of: Callable[[str], CancellationToken | None],
    ) -> None:
        self.agents = agents
        self._registry = registry
        self._settings = settings
        self._limits = Limits.of(settings)
        self._declare = declare
        self._transport = transport
        self._now_ms = transport.now_ms
        self._on_turn = on_turn
        self._token_of = token_of
        self._by_raw_type: dict[bytes, AgentTypeEntry] = {}
        self._topics: dict[bytes, str] = {}
        self._ends_by: dict[str, float] = {}
        self._requests: dict[str, CancellableRequest] = {}
        self._cancelled: deque[str] = deque(maxlen=MOST_CANCELLED)
        self._loop = asyncio.get_running_loop()
        self.add_waiting: Callable[[int], None] | None = None
        self.worker: Callable[[], str] = str
        self.handled = 0
        self.failed = 0
        self.first_error: BaseException | None = None

    # What the consumer asks for

    async def declare(self) -> None:
        await self._declare()

    def accepts(self) -> dict[str, int]:
        return self._registry.versions()

    def cancel(self, message_id: str) -> None:
        """Ends the handler of a request, or keeps it from beginning."""
        request = self._requests.get(message_id)
        if request is None:
            self._cancelled.append(message_id)
        else:
            request.cancel()

    def fenced(self, running: Sequence[Delivery]) -> None:
        """Persistent agents may have been changed elsewhere: they are loaded again when needed."""
        self.agents.forget_persistent()

    def on_turn(self, turn: Turn) -> None:
        self._on_turn(turn)

    async def handle(self, delivery: Delivery) -> Outcome:
        """Handles one entry."""
        if is_watched():
            return await watched(self._handle, delivery, self._now_ms())
        return await self._handle(delivery)

    async def _handle(self, delivery: Delivery) -> Outcome:
        if delivery.message_type == RESET and delivery.stream.startswith(b"urgent:"):
            return await self._reset(self._entry(delivery), delivery)
        try:
            envelope = self._envelope(delivery)
            if envelope.claimed:
                message = await self._fetch(delivery, envelope)
            else:
                message = self._registry.decode(envelope.type, envelope.version, envelope.body, self._limits)
        except ConnectionLostError:
            return Release("the worker stops")
        except BrokerError as error:
            return self._undecodable(delivery, error)
        entry = self._entry(delivery)
        if envelope.cancellable and (delivery.is_cancelled or envelope.id in self._cancelled):
            return self._called_off(envelope)
        if envelope.deadline is not None and self._now_ms() > envelope.deadline:
            return self._expired(envelope)
        if envelope.sender is not None and envelope.kind == "event" and _is_own(entry, envelope):
            return NOTHING
        try:
            live = entry.live.get(envelope.key) or await self.agents.get(
                entry, AgentId(entry.type, envelope.key)
            )
            live.used = self._loop.time()
            if entry.persistent and live.mailbox is not delivery.mailbox:
                await self._load(live, delivery)
        except Exception as error:  # noqa: BLE001 - a factory or a stored state can fail in any way
            return self._failed(entry, delivery, envelope, error)
        return await self._run(entry, live, delivery, envelope, message)

    # Decoding

    def _envelope(self, delivery: Delivery) -> Envelope:
        values = (
            delivery.message_id or delivery.entry,
            delivery.message_type,
            delivery.raw_key,
            delivery.sender,
            delivery.at or delivery.entry.split(b"-", 1)[0],
            delivery.head,
            delivery.body,
        )
        return from_values(values, self._limits)

    async def _fetch(self, delivery: Delivery, envelope: Envelope) -> Any:
        """The message whose bytes lie beside the stream. From now on its commit takes them away."""
        pointer = Pointer.read(envelope.body)
        message = await fetch_message(self._transport, self._registry, envelope, pointer)
        delivery.claim = pointer.name
        return message

    def _undecodable(self, delivery: Delivery, error: BrokerError) -> Outcome:
        reply, version = None, 1
        try:
            values = (delivery.message_id, b"-", delivery.raw_key, delivery.sender, b"0", delivery.head, b"")
            envelope = from_values(values, self._limits)
            reply, version = error_reply_to(envelope, error), envelope.version
        except BrokerError:
            logger.debug("the head of an undecodable message is broken too")
        info = ErrorInfo(type(error).__name__, str(error), "")
        letter = DeadLetter(f"decode: {error}"[:500], info, reply=reply)
        if _is_newer(error):
            return Wait(delivery.message_type.decode(errors="replace"), version, letter)
        self.failed += 1
        if isinstance(error, UnknownMessageError):  # a newer application may know it
            return Wait(delivery.message_type.decode(errors="replace"), version, letter)
        return letter

    def _entry(self, delivery: Delivery) -> AgentTypeEntry:
        entry = self._by_raw_type.get(delivery.raw_type)
        if entry is None:
            entry = self._by_raw_type[delivery.raw_type] = self.agents.entry(delivery.raw_type.decode())
        return entry

    # Agents

    async def _load(self, live: LiveAgent, delivery: Delivery) -> None:
        """Brings a persistent agent to the state that its last commit left, wherever that was."""
        version, data = delivery.state_version, delivery.state
        # What is handed over in a turn that asks for nothing more comes without state and with version 0.
        if delivery.state_unknown or (data is None and (live.version != version or not version)):
            version, data = await self._transport.load_state(live.agent_id.type, live.agent_id.key)
        if data is not None:
            self.agents.bring_to(live, version, data)
        live.mailbox = delivery.mailbox

    # Running

    async def _run(
        self,
        entry: AgentTypeEntry,
        live: LiveAgent,
        delivery: Delivery,
        envelope: Envelope,
        message: Any,
    ) -> Outcome:
        activation = Activation(
            live.agent_id,
            envelope.id,
            envelope.chain,
            envelope.deadline,
            self._transport,
            self.add_waiting,
            envelope.routes,
        )
        ctx = self._context(entry.type, delivery, envelope)
        if ctx.cancellation_token.is_cancelled():
            return self._called_off(envelope)
        request = self._cancellable(envelope, ctx) if envelope.cancellable else None
        activation.context = ctx
        token = current.set(activation)
        try:
            with MessageHandlerContext.populate_context(live.agent_id):
                if entry.is_plain:
                    result = await live.agent.on_message(message, ctx)
                else:
                    result = await self._run_watched(entry, live, activation, message, ctx)
                for settle in activation.before_commit:
                    await settle()
            if request is not None and request.ends():
                raise asyncio.CancelledError("cancelled by its sender")
            return self._succeeded(entry, live, envelope, activation, ctx, result)
        except BaseException as error:  # a handler that calls sys.exit() fails like any other
            self._roll_back(entry, live)
            called_off = request is not None and request.ends()
            if isinstance(error, KeyboardInterrupt) or (
                isinstance(error, asyncio.CancelledError) and _is_being_cancelled()
            ):
                raise
            once_of = self._record_of(activation, ctx)
            if called_off:
                return self._called_off(envelope, once_of)
            return self._failed(entry, delivery, envelope, error, once_of)
        finally:
            activation.is_over = True
            current.reset(token)
            if request is not None:
                self._requests.pop(envelope.id).ends()

    def _cancellable(self, envelope: Envelope, ctx: MessageContext) -> CancellableRequest:
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        request = self._requests[envelope.id] = CancellableRequest(task, ctx.cancellation_token)
        return request

    async def _run_watched(
        self,
        entry: AgentTypeEntry,
        live: LiveAgent,
        activation: Activation,
        message: Any,
        ctx: MessageContext,
    ) -> Any:
        """With a limit of time, or with requests that come while it waits."""
        if entry.reentrant:
            activation.reentry = self._reentry(entry, live, activation, ctx.attempt)
        try:
            if entry.settings.max_runtime is None:
                return await live.agent.on_message(message, ctx)
            return await self._run_within(entry.settings.max_runtime, live.agent, message, ctx)
        finally:
            if activation.reentry is not None:
                await activation.reentry.close()

    def _reentry(
        self, entry: AgentTypeEntry, live: LiveAgent, activation: Activation, attempt: int
    ) -> Reentry:
        place = Place(entry.type, live.agent_id.key, activation.message_id, self.worker())
        journal = Journal(self._transport, place)
        outer = Outer(live, entry.persistent, place, journal, attempt, self._transport, self._registry)
        return Reentry(outer, activation)

    async def _run_within(self, seconds: float, agent: Any, message: Any, ctx: MessageContext) -> Any:
        self._ends_by[ctx.message_id] = time.monotonic() + seconds
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await agent.on_message(message, ctx)
        except TimeoutError as error:
            if limit.expired():
                raise MaxRuntimeError(seconds) from error
            raise
        finally:
            del self._ends_by[ctx.message_id]

    def overdue(self) -> float:
        """Seconds since a handler should have been cancelled that blocks the event loop; 0 when none does.

        Called in the heartbeat's thread.
        """
        limits = tuple(self._ends_by.values())
        return max(0.0, time.monotonic() - min(limits)) if limits else 0.0

    def _context(self, agent_type: str, delivery: Delivery, envelope: Envelope) -> MessageContext:
        sender = AgentId.from_str(envelope.sender) if envelope.sender else None
        is_rpc = envelope.kind == "request"
        topic = None
        if not is_rpc:
            topic = TopicId(envelope.topic or self._topic_type(delivery.stream), envelope.key)
        token = self._token_of(envelope.id) if is_rpc else None
        deadline = envelope.deadline / 1000 if envelope.deadline is not None else None
        ctx = MessageContext(
            sender, topic, is_rpc, token or CancellationToken(), envelope.id, delivery.attempt, deadline
        )
        ctx.recorder = Recorder(self._transport, self._registry, agent_type, envelope.id)
        ctx.scope = f"{self._settings.namespace}/{agent_type}"
        return ctx

    def _topic_type(self, stream: bytes) -> str:
        """The topic type of a stream such as b"topic:visits"."""
        name = self._topics.get(stream)
        if name is None:
            name = self._topics[stream] = stream.decode().partition(":")[2]
        return name

    def _succeeded(
        self,
        entry: AgentTypeEntry,
        live: LiveAgent,
        envelope: Envelope,
        activation: Activation,
        ctx: MessageContext,
        result: Any,
    ) -> Outcome:
        reply = None
        if envelope.kind == "request":
            reply, claim = reply_to(envelope, activation.agent_id, result, self._registry, self._settings)
            if claim is not None:
                activation.claims += (claim,)
        state = None
        if entry.persistent:
            data = dump_state(live.agent)
            if data is not None and data != live.saved:
                live.version += 1
                live.saved = data
                state = (live.version, data)
        self.handled += 1
        once_of = self._record_of(activation, ctx)
        if reply is None and state is None and once_of is None and not activation.outgoing:
            return NOTHING
        outgoing = tuple(activation.outgoing)
        if envelope.cancellable:
            # The server may find that it was cancelled: then the state that this process has is not the stored one.
            return Commit(
                *(reply, state, outgoing, once_of, envelope.id),
                alone=state is not None,
                claims=activation.claims,
            )
        return Commit(reply, state, outgoing, once_of, claims=activation.claims)

    @staticmethod
    def _record_of(activation: Activation, ctx: MessageContext) -> str | None:
        """The message whose record of effects and of what left at once the commit has to clear away."""
        has_recorded = activation.has_sent or (isinstance(ctx.recorder, Recorder) and ctx.recorder.used)
        return activation.message_id if has_recorded else None

    def _roll_back(self, entry: AgentTypeEntry, live: LiveAgent) -> None:
        if entry.persistent:
            self.agents.roll_back(live)

    # Endings

    def _called_off(self, envelope: Envelope, once_of: str | None = None) -> Outcome:
        """The request was cancelled: nothing of it is committed. Whoever asks for it again is told so."""
        return Commit(error_reply_to(envelope, asyncio.CancelledError("cancelled")), once_of=once_of)

    async def _reset(self, entry: AgentTypeEntry, delivery: Delivery) -> Outcome:
        """The agent begins anew: with its default state, and made again when it has a factory."""
        agent_id = AgentId(entry.type, delivery.raw_key.decode())
        if not await self.agents.forget(entry, agent_id.key):
            error = ErrorInfo(
                "ResetError", f"{agent_id} was registered as an instance and keeps no state", ""
            )
            return DeadLetter("reset", error)
        self.handled += 1
        if not entry.persistent:
            return Commit(alone=True)
        version, data = delivery.state_version, delivery.state
        if delivery.state_unknown or data is None:
            version, _ = await self._transport.load_state(agent_id.type, agent_id.key)
        return Commit(state=(version + 1, b""), alone=True)

    def _failed(
        self,
        entry: AgentTypeEntry,
        delivery: Delivery,
        envelope: Envelope,
        error: BaseException,
        once_of: str | None = None,
    ) -> Outcome:
        if envelope.kind == "request" and not self._tries_again(entry, delivery, error):
            self.failed += 1
            return Commit(error_reply_to(envelope, error), once_of=once_of)
        policy = RetryPolicy.of(self._settings, max_attempts=entry.settings.max_attempts)
        info = ErrorInfo(type(error).__name__, str(error), "".join(traceback.format_exception(error))[-8000:])
        outcome = policy.decide(delivery.attempt, error, info)
        where = f"{entry.type}/{envelope.key}"
        if isinstance(outcome, Retry):
            logger.warning(
                "%s failed on %s (attempt %d): %s; trying again in %.1f s",
                where,
                envelope.type,
                delivery.attempt,
                info.type,
                outcome.delay,
            )
        else:
            self.failed += 1
            self.first_error = self.first_error or error
            logger.error("%s failed on %s: %s; it is a dead letter now", where, envelope.type, info.type)
        return outcome

    def _tries_again(self, entry: AgentTypeEntry, delivery: Delivery, error: BaseException) -> bool:
        """A failing request goes back to the caller at once, unless its agent type asks for more attempts."""
        attempts = entry.settings.max_attempts or self._settings.max_attempts
        is_permanent = getattr(error, "permanent", False)
        return entry.settings.retry_on_request and delivery.attempt < attempts and not is_permanent

    def _expired(self, envelope: Envelope) -> Outcome:
        error = DeadlineExceededError(envelope.type, envelope.id)
        if envelope.kind == "request":
            return Commit(error_reply_to(envelope, error))
        return DeadLetter("expired", ErrorInfo(type(error).__name__, str(error), ""))
