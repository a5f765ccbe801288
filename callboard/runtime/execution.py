"""One run of a handler: what it is told, what it adds to its commit, how it is run, and the run it belongs to.

The host runs the messages of its worker in this way, and `Reentry` of `requests` those that come in while one of them waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Protocol

from callboard.broker import AgentId, MessageRegistry, TopicId
from callboard.broker.envelope import Delivery, Envelope, Fence, Pointer, Posting, Receipt
from callboard.broker.ids import derived_id
from callboard.broker.limits import Limits
from callboard.broker.mailbox import HandlingWorker
from callboard.broker.outcome import DeadLetter, Retry, RunWrite, Suspend
from callboard.broker.redis.client.transport import RedisTransport
from callboard.core.cancellation import CancellationToken
from callboard.core.context import ContextScope, MessageContext, handling
from callboard.errors import SettingValueError

from .effects import PART, RUN, EffectRecorder, id_in

Handler = Callable[[Any, MessageContext], Awaitable[Any]]


class OpenDoor(Protocol):
    """Requests that are let in while the handler waits for the reply to one of its own."""

    async def catch_up(self) -> None:
        """Waits until what came in an earlier run of the handler has been run again."""

    async def end(self) -> None:
        """Lets nothing in any more."""


class Door(Protocol):
    """Lets requests in while a handler waits, see `Reentry` of requests.py."""

    @property
    def message_id(self) -> str:
        """The message with which all of it is committed."""
        ...

    def serve(self, request_id: str) -> OpenDoor:
        """Lets in what comes while the handler waits for the reply to this request."""
        ...


@dataclass(slots=True)
class Asking:
    """What one attempt at a message has asked of servers such as those of models.

    Attributes:
        answered: how many answers it got.
        failed: how many requests failed since the last answer.
    """

    answered: int = 0
    failed: int = 0


class Referee(Protocol):
    """Decides what becomes of a message whose handler failed."""

    def outcome_of(self, delivery: Receipt, error: BaseException) -> Retry | DeadLetter:
        """Whether it is tried again, and when."""
        ...


class Execution:
    """One message being handled by one agent. Found by what the handler calls through a context variable.

    Attributes:
        agent_id: the agent.
        envelope: the message.
        context: what the handler is told about it.
        receipt: of the delivery that is handled, that of a nested request: of the delivery whose handler let it in. None:
            of none.
        kept_with: id of the message with which its records are kept: its own, or that of the message whose handler
            let it in.
        has_sent: something left at once, so that the commit has to forget it.
        owner: the transport that the message came by.
        is_over: the handler has ended, so that nothing can leave with its commit any more.
        door: lets requests in while this handler waits; None: they are refused.
        worker: the worker that runs the handler; told when it begins to wait for a reply, and when that ends.
        referee: decides what becomes of the message when the handler fails; None: of a nested request, which is answered.
    """

    __slots__ = (
        "_asked",
        "_asking",
        "_before_commit",
        "_events",
        "_ordinal",
        "_outcome",
        "_outgoing",
        "_taken",
        "agent_id",
        "context",
        "door",
        "envelope",
        "has_sent",
        "is_over",
        "kept_with",
        "owner",
        "receipt",
        "referee",
        "worker",
    )

    def __init__(
        self,
        agent_id: AgentId,
        envelope: Envelope,
        context: MessageContext,
        owner: object = None,
        receipt: Receipt | None = None,
        kept_with: str | None = None,
    ) -> None:
        self.agent_id = agent_id
        self.envelope = envelope
        self.context = context
        self.owner = owner
        self.receipt = receipt
        self.kept_with = kept_with or envelope.id
        self._outgoing: list[Posting] | None = None
        self._events: list[RunWrite] | None = None
        self.has_sent = False
        self.is_over = False
        self.door: Door | None = None
        self._before_commit: list[Callable[[], Awaitable[None]]] | None = None
        self.worker: HandlingWorker | None = None
        self.referee: Referee | None = None
        self._outcome: tuple[BaseException, Retry | DeadLetter] | None = None
        self._asking: Asking | None = None
        self._ordinal = 0
        self._asked: dict[bytes, int] | None = None
        self._taken: dict[str, set[int]] | None = None

    @property
    def message_id(self) -> str:
        """Id of the message."""
        return self.envelope.id

    def outcome_of(self, error: BaseException) -> Retry | DeadLetter | None:
        """What becomes of the message if the handler ends with this error; None: it is not known here.

        Decided once: the pause, which is left to chance, is the one that readers of a run are told.
        """
        if self.referee is None or self.receipt is None:
            return None
        if self._outcome is None or self._outcome[0] is not error:
            self._outcome = (error, self.referee.outcome_of(self.receipt, error))
        return self._outcome[1]

    # Most handlers add nothing to these, so a list is made when it is first asked for.

    @property
    def asking(self) -> Asking:
        """What it has asked of servers so far."""
        if self._asking is None:
            self._asking = Asking()
        return self._asking

    @asking.setter
    def asking(self, asking: Asking) -> None:
        self._asking = asking

    @property
    def outgoing(self) -> list[Posting]:
        """Messages that leave with the commit."""
        if self._outgoing is None:
            self._outgoing = []
        return self._outgoing

    @property
    def events(self) -> list[RunWrite]:
        """Events that are written to the streams of runs with the commit."""
        if self._events is None:
            self._events = []
        return self._events

    @property
    def before_commit(self) -> list[Callable[[], Awaitable[None]]]:
        """Awaited in order when the handler has succeeded; what they publish belongs to its commit."""
        if self._before_commit is None:
            self._before_commit = []
        return self._before_commit

    @property
    def left_nothing(self) -> bool:
        """Nothing that it sent, wrote, recorded or asked has to be in its commit, or to be cleared away with it."""
        return (
            not (self.has_sent or self._outgoing or self._events or self._was_tried)
            and self._recorder is None
        )

    @property
    def record_of(self) -> str | None:
        """The message whose record of effects and of what left at once the commit has to clear away, if any."""
        recorder = self._recorder
        has_recorded = self.has_sent or (recorder is not None and recorder.used)
        return self.envelope.id if has_recorded or self._was_tried else None

    @property
    def _was_tried(self) -> bool:
        """Whether an earlier attempt may have done what this one had no reason to do: recorded, sent, or asked."""
        # guard: what an earlier attempt recorded and asked goes with the commit
        return self.receipt is not None and self.receipt.tries != b""

    @property
    def _recorder(self) -> EffectRecorder | None:
        """The recorder of the handler, if it has looked at it."""
        context = self.context
        if isinstance(context, HandlerContext) and not context.is_recorded:
            return None
        recorder = context.recorder
        return recorder if isinstance(recorder, EffectRecorder) else None

    def suspension(self) -> Suspend | None:
        """How it ends, now that the handler has ended, when that waits for an answer; None: it does not."""
        recorder = self._recorder
        if recorder is None or recorder.questions is None:
            return None
        recorder.questions.end()
        # guard: a handler whose question is open commits nothing
        asked = recorder.questions.without_answer
        # guard: a request whose deadline passes is dropped, and does not wait for its answer
        times = [*asked.values(), self.envelope.deadline if self.envelope.kind == "request" else None]
        wake_at = min((at for at in times if at is not None), default=None)
        return Suspend(self.envelope.id, tuple(asked), wake_at) if asked else None

    @property
    def fence(self) -> Fence | None:
        """The condition under which something may leave before the commit."""
        return None if self.receipt is None else self.receipt.fence

    def sends_at_once(self, name: str) -> str:
        """The idempotency id of a message that leaves before the commit: it leaves once however often this runs."""
        self.has_sent = True
        return f">{self.agent_id.type}:{self.kept_with}|{name}"

    def next_id(self, nature: str = "") -> str:
        """The id of the next message that this handler publishes: the same in every attempt at the message.

        Args:
            nature: messages of one nature are counted apart from the others; "": all that have none.
        """
        if nature:
            return self.request_id(nature.encode())
        # guard: every attempt gives the same ids
        self._ordinal += 1
        return derived_id(self.envelope.id, str(self.agent_id), self._ordinal)

    def request_id(self, request: bytes) -> str:
        """The id of a request: the same in every attempt, also when several leave at once in another order.

        Args:
            request: recipient and body.
        """
        if self._asked is None:
            self._asked = {}
        count = self._asked[request] = self._asked.get(request, 0) + 1
        return derived_id(self.envelope.id, str(self.agent_id), count, request)

    def take_number(self, what: str) -> int:
        """The lowest number, from 1, that no equal thing of this run has yet."""
        if self._taken is None:
            self._taken = {}
        taken = self._taken.setdefault(what, set())
        number = 1
        while number in taken:
            number += 1
        taken.add(number)
        return number

    def is_taken(self, what: str) -> bool:
        """Whether an equal thing of this run has a number."""
        return self._taken is not None and bool(self._taken.get(what))

    def give_back(self, what: str, number: int) -> None:
        """The number belongs to nothing any more: what had it failed."""
        if self._taken is not None:
            self._taken.get(what, set()).discard(number)

    async def run(self, handler: Handler, message: Any) -> Any:
        """Runs the handler, and what has to be settled before its commit; returns what it returned.

        When this returns, nothing suspends until the commit is made of `outgoing`: a task that the handler left behind
        can't add to it in between, and finds the execution over.
        """
        token, agent = current.set(self), handling.set(self.agent_id)
        try:
            result = await handler(message, self.context)
            if self._before_commit is not None:
                for settle in self._before_commit:
                    await settle()
            return result
        finally:
            self.is_over = True
            handling.reset(agent)
            current.reset(token)


current: ContextVar[Execution | None] = ContextVar("callboard_execution", default=None)


def running(owner: object) -> Execution | None:
    """The execution that a message sent here by `owner` is part of, or None.

    A task that a handler left behind, and another runtime that a handler uses, see the variable too: what they send is
    in no commit and leaves at once.
    """
    execution = current.get()
    if execution is None or execution.is_over or execution.owner is not owner:
        return None
    return execution


class Executions:
    """Makes the executions of one worker, and reads their messages.

    Args:
        transport: the connection to the server.
        registry: message classes.
        token_of: the cancellation token of a request that was sent from this process.
    """

    def __init__(
        self,
        transport: RedisTransport,
        registry: MessageRegistry,
        token_of: Callable[[str], CancellationToken | None],
    ) -> None:
        self.transport = transport
        self.registry = registry
        self.settings = transport.settings
        self._token_of = token_of
        self.limits = Limits.of(transport.settings)
        self._around = Surroundings(transport, registry)

    async def read(self, envelope: Envelope) -> Any:
        """The message of an envelope.

        Raises:
            DecodeError: it can't be read, or its type or version is not known here.
            ClaimLostError, PayloadTooLargeError: its bytes beside the stream are not there, or too many.
            ConnectionLostError: the transport was closed while they were fetched.
        """
        if envelope.claimed:
            return await self.fetch(envelope)
        return self.registry.decode(envelope.type, envelope.version, envelope.body, self.limits)

    async def fetch(self, envelope: Envelope) -> Any:
        """The message of an envelope whose bytes lie beside the stream; raises as `read` does."""
        body = await self.transport.claims.fetch(Pointer.read(envelope.body))
        limits = Limits.of_claims(self.settings)
        return self.registry.decode(envelope.type, envelope.version, body, limits)

    def is_called_off(self, request: Envelope) -> bool:
        """Whether a request was sent from this process, and its token was cancelled since."""
        token = self._token_of(request.id)
        return token is not None and token.is_cancelled()

    def begin(self, agent_id: AgentId, delivery: Delivery) -> Execution:
        """An execution of a message of the worker by this agent."""
        envelope = delivery.envelope
        context = HandlerContext.of(self._around, agent_id.type, envelope, delivery)
        if envelope.kind == "request" and (token := self._token_of(envelope.id)) is not None:
            context.cancellation_token = token
        return Execution(agent_id, envelope, context, self.transport, delivery)

    def begin_nested(self, agent_id: AgentId, envelope: Envelope, outer: Delivery) -> Execution:
        """An execution of a request that comes in while the handler of the delivery `outer` waits."""
        context = HandlerContext.of(self._around, agent_id.type, envelope, outer)
        return Execution(agent_id, envelope, context, self.transport, outer, outer.envelope.id)


# What a handler is told


class Surroundings:
    """The common part of the contexts of one worker's messages.

    Args:
        transport: the connection to the server.
        registry: message classes.
    """

    __slots__ = ("_topics", "namespace", "registry", "transport")

    def __init__(self, transport: RedisTransport, registry: MessageRegistry) -> None:
        self.transport = transport
        self.registry = registry
        self.namespace = transport.settings.namespace
        self._topics: dict[bytes, str] = {}

    def topic_in(self, stream: bytes) -> str:
        """The topic type whose stream this is; "": it is that of an inbox."""
        name = self._topics.get(stream)
        if name is None:
            kind, _, name = stream.decode().partition(":")
            self._topics[stream] = name = name if kind == "topic" else ""
        return name


class HandlerContext(MessageContext):
    """The context of a message that a worker handles.

    Most handlers look at little of it, and to make all of it takes a tenth of the time of a message. So a field has no
    value until it is looked at: then `__getattr__` is called, makes it, and keeps it in the field.

    Attributes:
        is_recorded: its recorder was looked at, so that it may have recorded something.
    """

    __slots__ = ("_agent_type", "_around", "_delivery", "_envelope", "is_recorded")

    _agent_type: str
    _around: Surroundings
    _delivery: Delivery
    _envelope: Envelope
    is_recorded: bool

    @classmethod
    def of(
        cls, around: Surroundings, agent_type: str, envelope: Envelope, delivery: Delivery
    ) -> HandlerContext:
        """The context of a message.

        Args:
            around: what it has in common with others.
            agent_type: of the agent that handles it.
            envelope: the message.
            delivery: the one that it came with; a nested request: the one whose handler let it in.
        """
        made = cls.__new__(cls)
        made._around = around
        made._agent_type = agent_type
        made._envelope = envelope
        made._delivery = delivery
        made.is_rpc = envelope.kind == "request"
        made.is_recorded = False
        return made

    def __getattr__(self, name: str) -> Any:
        make = LATER.get(name)
        if make is None:
            raise AttributeError(f"a MessageContext has no attribute {name!r}", name=name, obj=self)
        value = make(self)
        setattr(self, name, value)
        return value

    def _make_sender(self) -> AgentId | None:
        sender = self._envelope.sender
        return AgentId.from_str(sender) if sender else None

    def _make_topic_id(self) -> TopicId | None:
        """None: it was sent to the agent itself."""
        envelope = self._envelope
        if self.is_rpc:
            return None
        name = envelope.topic or self._around.topic_in(self._delivery.stream)
        return TopicId(name, envelope.key) if name else None

    def _make_token(self) -> CancellationToken:
        return CancellationToken()

    def _make_message_id(self) -> str:
        return self._envelope.id

    def _make_attempt(self) -> int:
        return self._delivery.attempt

    def _make_scope(self) -> str:
        return f"{self._around.namespace}/{self._agent_type}"

    def _make_deadline(self) -> float | None:
        deadline = self._envelope.deadline
        return None if deadline is None else deadline / 1000

    def _make_recorder(self) -> EffectRecorder:
        self.is_recorded = True
        envelope, delivery, around = self._envelope, self._delivery, self._around
        kept_with = delivery.envelope.id
        if envelope is delivery.envelope:
            prefix, run = "", envelope.run
        else:
            prefix, run = f"{envelope.id}:", None
        return EffectRecorder(
            around.transport, around.registry, self._agent_type, kept_with, delivery, prefix, run
        )

    def _make_run_id(self) -> str | None:
        run = self._envelope.run
        return None if run is None else id_in(run)


LATER: Final[dict[str, Callable[[HandlerContext], Any]]] = {
    "sender": HandlerContext._make_sender,
    "topic_id": HandlerContext._make_topic_id,
    "cancellation_token": HandlerContext._make_token,
    "message_id": HandlerContext._make_message_id,
    "attempt": HandlerContext._make_attempt,
    "deadline": HandlerContext._make_deadline,
    "recorder": HandlerContext._make_recorder,
    "scope": HandlerContext._make_scope,
    "run_id": HandlerContext._make_run_id,
}
"""Each field of a context but `is_rpc`, which all handlers are chosen by."""

# The run that this code belongs to, and who speaks

MOST_RUN_ID: Final = 128  # characters; every message of the run carries it

# The id, and the handler in which it was set. A worker that was started inside the `with` block has the variable too, and
# what it handles belongs to the runs of its messages.
in_block: ContextVar[tuple[str, Execution | None] | None] = ContextVar("callboard_run", default=None)


# Who speaks where that is no agent of the bus, such as a member of a team in this process; and in which handler.
speaking: ContextVar[tuple[str, Execution | None] | None] = ContextVar("callboard_speaker", default=None)


@contextmanager
def usage_run(name: str) -> Iterator[None]:
    """Make everything that is sent and used in the `with` block part of the run `name`.

    Messages carry the id of their run, and what their handlers send carries it on. So the agents that an agent asks draw
    from the same budget as it does, in whatever process they live.

    Args:
        name: such as the id of a team's run, up to 128 characters. The same name may be used again, also in other
            processes.

    Raises:
        SettingValueError: it is empty or longer, or has control characters that stand between the names of runs.
    """
    if not 0 < len(name) <= MOST_RUN_ID:
        raise SettingValueError("name", repr(name[:MOST_RUN_ID]), f"1 to {MOST_RUN_ID} characters")
    if RUN in name or PART in name:
        raise SettingValueError("name", repr(name), "without control characters")
    with in_run_path(name):
        yield


def in_run_path(path: str) -> ContextScope[tuple[str, Execution | None] | None]:
    """The same for a path of runs inside each other, see effects.py; "": the code belongs to none."""
    return ContextScope(in_block, (path, current.get()))


def run_id() -> str | None:
    """The id of the run that this code belongs to: of the `with` block around it, else of the message that is handled.

    Returns:
        None when it belongs to no run.
    """
    path = run_path()
    return None if path is None else id_in(path)


def run_path() -> str | None:
    """The same with the runs around it, see effects.py."""
    return run_of(current.get())


def run_of(execution: Execution | None) -> str | None:
    """The path of the run to which what is sent here belongs, where this execution is under way; None: outside handlers."""
    given = in_block.get()
    if given is not None and given[1] is current.get():
        return given[0] or None
    return None if execution is None else execution.envelope.run


@contextmanager
def speaking_as(name: str) -> Iterator[None]:
    """Name who uses what is used in the `with` block, for the usage of a run; else it is the type of the handler's agent."""
    token = speaking.set((name, current.get()))
    try:
        yield
    finally:
        speaking.reset(token)


def speaker() -> str:
    """The speaker here; "": it is not known."""
    execution, given = current.get(), speaking.get()
    if given is not None and given[1] is execution:
        return given[0]
    return "" if execution is None else execution.agent_id.type
