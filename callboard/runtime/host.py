"""The way of a delivery in: read the message, find or make the agent, run its handler, and say how it ended."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from itertools import count
from typing import Any

from callboard.broker import AgentId
from callboard.broker.envelope import Delivery, Envelope, Pointer, Posting, Receipt
from callboard.broker.errors import (
    BrokerError,
    ConnectionLostError,
    DeadlineExceededError,
    DecodeError,
    FencedError,
)
from callboard.broker.mailbox import HandlingWorker, Turn
from callboard.broker.outcome import (
    NOTHING,
    Commit,
    DeadLetter,
    ErrorInfo,
    LogChange,
    Outcome,
    Release,
    Retry,
    Wait,
    committed,
)
from callboard.broker.redis.client.requests import NestedPlace
from callboard.broker.redis.client.states import StoredState
from callboard.broker.remote_errors import text_of, trace_of
from callboard.broker.retry import RetryPolicy, decided
from callboard.broker.telemetry import LISTENERS
from callboard.core.cancellation import Suspended
from callboard.core.context import MessageContext
from callboard.core.state import dump_state, has_logs, log_changes, settle_logs

from .agents import LiveAgent, LocalAgents, LocalAgentType
from .errors import MaxRuntimeError
from .execution import Execution, Executions
from .reports import FailureLog, MessageLog, tell_started, watched
from .requests import (
    CancellableRequests,
    Journal,
    Outer,
    Reentry,
    cancelled_reply_to,
    error_reply_to,
    is_being_cancelled,
    is_ended,
    reply_to,
)

RESET = "callboard.reset"


class AgentHost:
    """Works for the consumer of one worker: every failure becomes an outcome.

    Args:
        agents: the agents of this process.
        executions: reads messages and runs handlers.
        retry: when a failed message is tried again, unless the settings of its agent type say otherwise.
        declare: makes agent types and subscriptions known to the server.
        on_turn: called with every turn of the worker.

    Attributes:
        now: loop time in seconds, which the worker says from time to time. Agents that are used meanwhile share the number.
    """

    def __init__(
        self,
        agents: LocalAgents,
        executions: Executions,
        retry: RetryPolicy,
        *,
        declare: Callable[[], Coroutine[Any, Any, None]],
        on_turn: Callable[[Turn], None],
    ) -> None:
        self.agents = agents
        self.declare = declare
        self.on_turn = on_turn
        self.handled = 0
        self.failed = 0
        self.dropped = 0
        self.first_error: BaseException | None = None
        self._executions = executions
        self._retry = retry
        self._registry = executions.registry
        self._settings = executions.settings
        self._transport = executions.transport
        self._requests = CancellableRequests()
        namespace = executions.transport.keys.namespace
        self._failures = FailureLog(namespace, with_texts=self._settings.log_error_texts)
        self._log = MessageLog.if_heard()
        self._around = self._guarded if self._log is None else self._logged
        self.cancel = self._requests.cancel
        self._by_raw_type: dict[bytes, LocalAgentType] = {}
        self.limits = RunningLimits()
        self.now = asyncio.get_running_loop().time()

    def accepts(self) -> dict[str, int]:
        """The messages that this process knows, with their versions."""
        return self._registry.versions()

    def fenced(self, running: Sequence[Delivery]) -> None:
        """Persistent agents may have been changed elsewhere: they are loaded again when needed."""
        # guard: states are loaded again after a lost lease
        self.agents.forget_persistent()

    # One delivery, from its envelope to its outcome

    def handle(
        self, delivery: Delivery, worker: HandlingWorker | None = None
    ) -> Coroutine[Any, Any, Outcome]:
        """Handles one delivery, for this worker. No coroutine of its own: each one more costs 0.1 microseconds."""
        handling = self._handle(delivery, worker)
        return watched(handling, delivery) if LISTENERS else handling

    async def _handle(self, delivery: Delivery, worker: HandlingWorker | None) -> Outcome:
        envelope = delivery.envelope
        if envelope.type == RESET and delivery.stream.startswith(b"urgent:"):
            return await self._reset(delivery)
        try:
            if delivery.broken is not None:
                raise delivery.broken
            if envelope.claimed:
                message = await self._executions.fetch(envelope)
                delivery.claim = Pointer.read(envelope.body).name  # from now on a commit takes the bytes away
            else:
                message = self._registry.decode(
                    envelope.type, envelope.version, envelope.body, self._executions.limits, delivery.shared
                )
        except ConnectionLostError:
            return Release("the worker stops")
        except BrokerError as error:
            return self._undecodable(delivery, error)
        kind = self._by_raw_type.get(delivery.raw_type) or self._kind(delivery)
        dropped = self._dropped(kind, delivery, envelope)
        if dropped is not None:
            return dropped
        try:
            live = kind.live.get(envelope.key) or await self.agents.get(
                kind, AgentId(kind.type, envelope.key)
            )
            live.used = self.now
            if kind.persistent and live.mailbox is not delivery.mailbox:
                await self._load(live, delivery)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a factory or a stored state can fail in any way
            return self._failed(kind, delivery, error)
        return await self._run(kind, live, delivery, message, worker)

    def _kind(self, delivery: Delivery) -> LocalAgentType:
        kind = self._by_raw_type[delivery.raw_type] = self.agents.kind(delivery.raw_type.decode())
        if self._log is not None:
            kind.is_plain = False
        return kind

    def _dropped(self, kind: LocalAgentType, delivery: Delivery, envelope: Envelope) -> Outcome | None:
        """How a message ends that is not handled at all: it is cancelled, too late, or was published by the agent itself."""
        if envelope.cancellable and (delivery.is_cancelled or self._requests.is_cancelled(envelope.id)):
            return self._called_off(delivery)
        if envelope.kind == "request":
            # guard: what expired is not started
            if envelope.deadline is not None and self._transport.now_ms() > envelope.deadline:
                error = DeadlineExceededError(envelope.type, envelope.id)
                return self._drop(delivery, "expired", error_reply_to(envelope, error))
            return None
        is_own = envelope.sender is not None and envelope.sender == f"{kind.type}/{envelope.key}"
        # In the inbox, without a topic, is what the agent sent to itself on purpose.
        # guard: an agent gets its own reminders
        if is_own and (envelope.topic is not None or delivery.stream.startswith(b"topic:")):
            return NOTHING
        # A retry is not dropped: its handler began in time, or may have begun in a worker that died.
        if envelope.expires_in is not None and not delivery.tries and self._is_late(envelope):
            dropped = self._drop(delivery, "expired")
            return DeadLetter("expired") if envelope.if_buried else dropped
        return None

    def _is_late(self, envelope: Envelope) -> bool:
        return self._transport.now_ms() > envelope.at + (envelope.expires_in or 0)

    async def _load(self, live: LiveAgent, delivery: Delivery) -> None:
        """Brings a persistent agent to the state that its last commit left, wherever that was."""
        version, data = delivery.state_version, delivery.state
        # What is handed over in a turn that asks for nothing more comes without state and with version 0.
        # guard: a state that did not come along is asked for
        is_missing = delivery.state_unknown or (data is None and (live.version != version or not version))
        if is_missing or (data is not None and delivery.has_logs):
            stored = await self._transport.await_state(live.agent_id.type, live.agent_id.key)
            self.agents.bring_to(live, stored)
        elif data is not None:
            self.agents.bring_to(live, StoredState(version, data))
        live.mailbox = delivery.mailbox

    async def _run(
        self,
        kind: LocalAgentType,
        live: LiveAgent,
        delivery: Delivery,
        message: Any,
        worker: HandlingWorker | None,
    ) -> Outcome:
        envelope = delivery.envelope
        if envelope.kind == "request" and self._executions.is_called_off(envelope):
            return self._called_off(delivery)
        execution = self._executions.begin(live.agent_id, delivery)
        execution.worker, execution.referee = worker, self
        request = self._requests.begin(execution) if envelope.cancellable else None
        if LISTENERS:
            tell_started(delivery, self._transport.now_ms())
        try:
            handler = live.agent.on_message
            if not kind.is_plain:
                handler = partial(self._around, kind, live, delivery, execution)
            result = await execution.run(handler, message)
            if request is not None and request.ends():
                raise asyncio.CancelledError("cancelled by its sender")
            return self._succeeded(kind, live, execution, result)
        except BaseException as error:  # a handler that calls sys.exit() fails like any other
            # guard: a failed handler changes nothing
            if kind.persistent:
                self.agents.roll_back(live)
            called_off = request is not None and request.ends()
            if isinstance(error, KeyboardInterrupt) or (
                isinstance(error, asyncio.CancelledError) and is_being_cancelled() and is_ended(delivery)
            ):
                raise
            if called_off:
                return Commit(cancelled_reply_to(envelope), once_of=execution.record_of)
            return self._suspended(execution, error) or self._failed(kind, delivery, error, execution)
        finally:
            if request is not None:
                self._requests.end(request)

    @staticmethod
    def _suspended(execution: Execution, error: BaseException) -> Outcome | None:
        # guard: what a handler raises while it waits for an answer is no failure
        return None if isinstance(error, FencedError) else execution.suspension()

    def _succeeded(self, kind: LocalAgentType, live: LiveAgent, execution: Execution, result: Any) -> Outcome:
        envelope, reply, state, logs = execution.envelope, None, None, None
        if envelope.kind == "event" and not kind.persistent and execution.left_nothing:
            self.handled += 1
            return NOTHING  # as what follows would find
        record_of = execution.record_of
        if record_of is not None and execution.suspension() is not None:
            raise Suspended  # what the handler did with it before counts as little as what it returned
        if envelope.kind == "request":
            limits = self._executions.limits
            reply = reply_to(envelope, execution.agent_id, result, self._registry, self._settings, limits)
        if kind.persistent:
            state, logs = self._changed(live)
        self.handled += 1
        events = execution.events
        if not (reply or state or logs or record_of or execution.outgoing or events):
            return NOTHING
        outgoing = tuple(execution.outgoing)
        if envelope.cancellable:
            # The server may find that it was cancelled: then the state that this process has is not the stored one.
            is_alone = state is not None or logs is not None
            return Commit(
                reply, state, outgoing, record_of, envelope.id, alone=is_alone, logs=logs, events=events
            )
        return committed(reply, state, outgoing, record_of, logs, events)

    @staticmethod
    def _changed(
        live: LiveAgent,
    ) -> tuple[tuple[int, bytes] | None, tuple[int, Sequence[LogChange]] | None]:
        """The part of a commit that is a persistent agent's state and logs; both count as written from now on."""
        data = dump_state(live.agent, live.saved)
        is_changed = data != live.saved
        changes = log_changes(live.agent, is_changed) if has_logs(live.agent) else None
        if not is_changed and changes is None:
            return None, None
        is_first = not live.version
        live.version += 1
        live.saved = data
        if changes is not None:
            settle_logs(live.agent)
        state = (live.version, data) if data is not None and (is_changed or is_first) else None
        return state, None if changes is None else (live.version, changes)

    def _failed(
        self,
        kind: LocalAgentType,
        delivery: Delivery,
        error: BaseException,
        execution: Execution | None = None,
    ) -> Outcome:
        envelope, attempt = delivery.envelope, delivery.attempt
        # Another worker has the message and makes its own outcome of it; nothing of this one would be written.
        # guard: a fenced handler makes no outcome
        if isinstance(error, FencedError):
            return Release("another worker has it")
        once_of = None if execution is None else execution.record_of
        known = None if execution is None else execution.outcome_of(error)
        outcome = known or self.outcome_of(delivery, error)
        is_request = envelope.kind == "request"
        if is_request and not (kind.settings.retry_on_request and isinstance(outcome, Retry)):
            self.failed += 1
            self._failures.answered(kind.type, envelope, error)
            return Commit(error_reply_to(envelope, error), once_of=once_of)
        if isinstance(outcome, Retry) and outcome.waited is not None:
            self._failures.waits(kind.type, envelope, delivery.waited, outcome.delay, error)
        elif isinstance(outcome, Retry):
            self._failures.retried(kind.type, envelope, attempt, outcome.delay, error)
        else:
            self.failed += 1
            self.first_error = self.first_error or error
            self._failures.buried(kind.type, envelope, error)
        return outcome

    def outcome_of(self, delivery: Receipt, error: BaseException) -> Retry | DeadLetter:
        """Whether the message is tried again, and when, if its handler ends with this error."""
        policy = self.agents.kind(delivery.raw_type.decode()).settings.retry_policy(self._retry)
        info = ErrorInfo(type(error).__name__, text_of(error), trace_of(error)[-8000:])
        return decided(policy, delivery.attempt, error, info, delivery.waited)

    # Around the handler

    async def _guarded(
        self,
        kind: LocalAgentType,
        live: LiveAgent,
        delivery: Delivery,
        execution: Execution,
        message: Any,
        ctx: MessageContext,
    ) -> Any:
        """Runs a handler with a limit of time, or with requests that come while it waits."""
        reentry = self._reentry(kind, live, delivery, execution) if kind.reentrant else None
        try:
            if kind.settings.max_runtime is None:
                return await live.agent.on_message(message, ctx)
            return await self._run_within(kind.settings.max_runtime, live.agent, message, ctx)
        finally:
            if reentry is not None:
                await reentry.close()

    async def _logged(
        self,
        kind: LocalAgentType,
        live: LiveAgent,
        delivery: Delivery,
        execution: Execution,
        message: Any,
        ctx: MessageContext,
    ) -> Any:
        """The same with AutoGen's log events; only where they are listened to."""
        log = self._log or MessageLog()
        log.delivered(message, ctx, live.agent_id)
        try:
            result = await self._guarded(kind, live, delivery, execution, message, ctx)
        except Exception as error:
            log.failed(message, live.agent_id, error)
            raise
        if ctx.is_rpc:
            log.responded(result, live.agent_id, ctx.sender, is_there=False)
        return result

    def _reentry(
        self, kind: LocalAgentType, live: LiveAgent, delivery: Delivery, execution: Execution
    ) -> Reentry:
        place = NestedPlace(kind.type, live.agent_id.key, delivery.envelope.id, delivery.fence)
        journal = Journal(self._transport, place)
        outer = Outer(live, kind.persistent, place, journal, delivery, self._executions)
        reentry = Reentry(outer, execution)
        execution.door = reentry
        return reentry

    async def _run_within(self, seconds: float, agent: Any, message: Any, ctx: MessageContext) -> Any:
        running = self.limits.begin(seconds)
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await agent.on_message(message, ctx)
        except TimeoutError as error:
            if limit.expired():
                raise MaxRuntimeError(seconds) from error
            raise
        finally:
            self.limits.end(running)

    # Other endings

    def _undecodable(self, delivery: Delivery, error: BrokerError) -> Outcome:
        envelope = delivery.envelope
        info = ErrorInfo(type(error).__name__, str(error), "")
        letter = DeadLetter(f"decode: {error}"[:500], info, reply=error_reply_to(envelope, error))
        if _is_newer(error):
            return Wait(envelope.type, envelope.version, letter)
        self.failed += 1
        if isinstance(error, DecodeError) and error.is_unknown:  # a newer application may know it
            self._failures.unknown(delivery.raw_type.decode(), envelope)
            return Wait(envelope.type, envelope.version, letter)
        self._failures.buried(delivery.raw_type.decode(), envelope, error)
        return letter

    def _called_off(self, delivery: Delivery) -> Outcome:
        """The message was cancelled before its handler ran."""
        return self._drop(delivery, "cancelled", cancelled_reply_to(delivery.envelope))

    def _drop(self, delivery: Delivery, reason: str, reply: Posting | None = None) -> Outcome:
        self.dropped += 1
        # guard: what an attempt before recorded and asked goes with a message that is dropped
        return Commit(reply, dropped=reason, once_of=delivery.envelope.id if delivery.tries else None)

    async def _reset(self, delivery: Delivery) -> Outcome:
        """The agent begins anew: with its default state, and made again when it has a factory."""
        kind = self._kind(delivery)
        agent_id = AgentId(kind.type, delivery.envelope.key)
        if not await self.agents.forget(kind, agent_id.key):
            error = ErrorInfo(
                "ResetError", f"{agent_id} was registered as an instance and keeps no state", ""
            )
            return DeadLetter("reset", error)
        self.handled += 1
        if not kind.persistent:
            return Commit(alone=True)
        version, data = delivery.state_version, delivery.state
        if delivery.state_unknown or data is None:
            version = (await self._transport.await_state(agent_id.type, agent_id.key)).version
        return Commit(state=(version + 1, b""), alone=True)


def _is_newer(error: BrokerError) -> bool:
    return isinstance(error, DecodeError) and bool(error.accepted) and error.version > max(error.accepted)


class RunningLimits:
    """The limits of the handlers under way.

    Attributes:
        board: its one number is the time (`time.monotonic()`) at which the first of them ends, 0.0 when there is none. It
            may be memory that another process sees too, see `Keeper`; to be replaced only while nothing runs.
    """

    def __init__(self) -> None:
        self.board: memoryview[float] = memoryview(array("d", [0.0])).cast("B").cast("d")
        self._ends: dict[int, float] = {}
        self._numbers = count()

    def begin(self, seconds: float) -> int:
        """A handler begins that may run so long; returns what `end` needs."""
        number, ends = next(self._numbers), time.monotonic() + seconds
        self._ends[number] = ends
        if not self.board[0] or ends < self.board[0]:
            self.board[0] = ends
        return number

    def end(self, number: int) -> None:
        """The handler has ended."""
        # guard: a handler that ended has no limit any more
        if self._ends.pop(number) <= self.board[0]:
            self.board[0] = min(self._ends.values(), default=0.0)

    def overdue(self) -> float:
        """Seconds since the first of them should have ended; 0 when none is late. May be called in any thread."""
        earliest = self.board[0]
        return max(0.0, time.monotonic() - earliest) if earliest else 0.0
