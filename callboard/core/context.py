"""The context of a message for its handler: steps, questions, and the agent that is handling right now."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from callboard.errors import CannotAskError, DeclarationError, MisuseError

from .cancellation import UNSET, Unset

if TYPE_CHECKING:
    from callboard.broker.ids import AgentId, TopicId

    from .cancellation import CancellationToken


P = ParamSpec("P")
T = TypeVar("T")


class Recorder(Protocol):
    """Remembers what a handler did outside Redis and asked people, once for each message."""

    async def __call__(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """Return the recorded result of `name`, or await `call`, record what it returned and return that."""
        ...

    async def ask(self, text: str, *, prefix: str = "", **how: Any) -> Any:
        """Return the answer to a question; while there is none, this does not return: the handler ends.

        Args:
            text: What is asked.
            prefix: Comes before the name of the question.
            **how: The other arguments of `MessageContext.ask`.
        """
        ...


@dataclass(slots=True)
class MessageContext:
    """The circumstances of one message.

    Attributes:
        sender: The agent that sent it; None when it came from outside any agent.
        topic_id: The topic it was published to; None for a direct message.
        is_rpc: Whether the sender waits for an answer.
        cancellation_token: Cancelled when the sender cancels; pass it on to nested sends.
        message_id: The id of the message; the same in every attempt.
        attempt: Which attempt this is, from 1.
        deadline: Unix time in seconds, on the server's clock, after which the sender no longer waits; None:
            no limit.
        recorder: What `once` records with. The runtime sets it; without one `once` just runs the function.
        scope: Namespace and agent type, part of every idempotency key. The runtime sets it.
        run_id: The run that the message belongs to; what the handler sends belongs to it as well. None: to none.
    """

    sender: AgentId | None
    topic_id: TopicId | None
    is_rpc: bool
    cancellation_token: CancellationToken
    message_id: str
    attempt: int = 1
    deadline: float | None = None
    recorder: Recorder | None = field(default=None, repr=False, compare=False)
    scope: str = field(default="", repr=False, compare=False)
    run_id: str | None = None

    async def once(
        self, name: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run an async function with effects outside Redis once for this message.

        Its result is recorded before it is used, so that another attempt at the message gets the recorded
        result instead of the effect a second time. Calls with one name at the same time share one run. The
        record is found by agent type, message and name alone: neither the function nor its arguments are
        compared.

        When the record is not there, the function runs:

        - in the first attempt, and when an attempt before it died between the effect and its record;
        - when the step has another name now, because the code changed between two attempts: a step that is
          renamed or split runs again, one that is removed leaves a record that is never used;
        - when `dedupe_window` (a day) has passed since the message's last record, or the message was committed.

        A failure is not recorded. A dead letter keeps its record, so that a replay within the window goes on
        where the last attempt failed. For an effect that must not be made again in any of these cases, give the
        service `idempotency_key(name)`.

        Args:
            name: Tells the calls of one handler apart; the same in every attempt.
            function: What to run.
            *args: Its arguments.
            **kwargs: Its keyword arguments.

        Returns:
            What the function returned, now or in an earlier attempt: a message, a pydantic model or plain data.

        Raises:
            DeclarationError: The function was called already, or is not async (a TypeError).
            EncodeError: The result can't be recorded; the effect has been made.
            PayloadTooLargeError: The same, because it is larger than `max_claim`.
            DecodeError: What was recorded can't be read by this code any more, because
                its class is gone or has changed. The effect is not made again.
        """
        check_step(name, function)
        # A partial and not a lambda: the recorder may ask the function what it returns.
        call = partial(function, *args, **kwargs)
        if self.recorder is None:
            return await called(name, call)
        return cast("T", await self.recorder(name, call))

    @overload
    async def ask(
        self,
        question: str,
        *,
        name: str | None = None,
        choices: Sequence[str] | None = None,
        to: str | Sequence[str] | None = None,
        timeout: float | None = None,
        default: str | Unset = UNSET,
        details: Mapping[str, Any] | None = None,
    ) -> str: ...

    @overload
    async def ask(
        self,
        question: str,
        *,
        name: str | None = None,
        choices: Sequence[str] | None = None,
        answer_type: type[T],
        to: str | Sequence[str] | None = None,
        timeout: float | None = None,
        default: T | Unset = UNSET,
        details: Mapping[str, Any] | None = None,
    ) -> T: ...

    async def ask(
        self,
        question: str,
        *,
        name: str | None = None,
        choices: Sequence[str] | None = None,
        answer_type: type[Any] = str,
        to: str | Sequence[str] | None = None,
        timeout: float | None = None,
        default: Any = UNSET,
        details: Mapping[str, Any] | None = None,
    ) -> Any:
        """Ask a person, or another outside, and wait for the answer without a process.

        The question is kept in the server, where `runtime.inputs` of any process finds and answers it. While there is no
        answer the handler ends here: nothing of this attempt is committed, the agent holds no worker, and what comes for
        it later waits in order. With the answer the handler runs again from its start: what `ctx.once` recorded answers
        at once, and `ask` returns. What is not recorded runs again.

        Several questions may be asked at the same time (`asyncio.gather`): all of them can be answered, in any order.
        Steps of `ctx.once` that run beside them are finished and recorded before the handler ends.

        Args:
            question: What is asked.
            name: Tells the questions of one handler apart; the same in every attempt. None: the text of the question, and
                its number among equal ones.
            choices: The answers there are. None: any.
            answer_type: Class of the answer: anything that pydantic reads from JSON.
            to: The name of who may answer, or several. None: anybody.
            timeout: Seconds until the question expires, from when it was first asked. None: never.
            default: What is returned when it has expired. Unset: `InputExpiredError` is raised then.
            details: Shown to who answers, such as the arguments of a call; plain data.

        Returns:
            The answer.

        Raises:
            InputExpiredError: No answer came in time.
            InputWithdrawnError: The question was withdrawn.
            InputValueError: The answer is not of `answer_type`.
            DeclarationError: The question itself can't be asked like that (a ValueError).
            CannotAskError: This is a request that came in while another handler of the agent waits (see `reentrant`), or
                there is no handler at all.
        """
        # A recorder of a test may know steps only.
        ask = getattr(self.recorder, "ask", None)
        if ask is None:
            raise CannotAskError("there is no handler that could run again; ask in a handler of an agent")
        return await ask(
            question,
            name=name,
            choices=choices,
            answer_type=answer_type,
            to=to,
            timeout=timeout,
            default=default,
            details=details,
        )

    def idempotency_key(self, name: str) -> str:
        """A key for an effect that has its own idempotency, such as a payment: the same in every attempt.

        It depends on the namespace, the agent type, the message and the name, and on nothing else: not on the
        attempt, the process, or the time, and a replayed dead letter has the same. Different agent types that
        handle one message have different keys.

        Args:
            name: Tells the effects of one handler apart.

        Returns:
            32 hexadecimal digits, 128 bits of a SHA-256.
        """
        parts = "\0".join((self.scope, self.message_id, name))
        return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class ContextScope(Generic[T]):
    """Sets a context variable for the length of a `with` block.

    A class and not a generator: it is entered once per message, and costs a third of one.
    """

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[T], value: T) -> None:
        self._variable = variable
        self._value = value
        self._token: Token[T] | None = None

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *exc_info: object) -> None:
        if self._token is not None:
            self._variable.reset(self._token)


handling: ContextVar[AgentId] = ContextVar("callboard_message_handler")
"""The agent whose handler is running. The runtime sets it by itself: a ContextScope costs four times as much."""


host: ContextVar[tuple[object, str] | None] = ContextVar("callboard_host", default=None)
"""The actor that an agent of a team speaks in, and its conversation; None: the code runs in no such agent."""


class MessageHandlerContext:
    """Tells code that runs inside a message handler which agent it runs for."""

    def __init__(self) -> None:
        raise MisuseError(f"{type(self).__name__} cannot be instantiated: call its class methods.")

    @classmethod
    def populate_context(cls, ctx: AgentId) -> ContextScope[AgentId]:
        """Make `ctx` the current agent for a `with` block. For runtimes."""
        return ContextScope(handling, ctx)

    @classmethod
    def agent_id(cls) -> AgentId:
        """The agent whose handler is running.

        Raises:
            MisuseError: No handler is running here.
        """
        try:
            return handling.get()
        except LookupError as error:
            raise MisuseError(
                "MessageHandlerContext.agent_id() must be called within a message handler."
            ) from error


def _step(name: object) -> str:
    return f"the step {name!r} can't run"


def check_step(name: object, function: object) -> None:
    """Check what was given to `ctx.once`.

    Raises:
        DeclarationError: The name is missing, or the function was called already (a TypeError).
    """
    if not isinstance(name, str):
        raise DeclarationError(
            _step(name), "its name, a text, comes first: await ctx.once('charge', charge, 250)"
        )
    if isinstance(function, Coroutine):
        given = getattr(function, "__name__", "the function")
        function.close()  # it is never awaited, and Python would warn of that
        advice = f"await ctx.once({name!r}, {given}, ...)"
        raise DeclarationError(
            _step(name), f"give the function and its arguments apart, for it is not always called: {advice}"
        )
    if not callable(function):
        raise DeclarationError(_step(name), f"a {type(function).__name__} is no function")


def called(name: str, call: Callable[[], Awaitable[T]]) -> Awaitable[T]:
    """Call the function of a step; its result is to be awaited.

    Raises:
        DeclarationError: It is not async (a TypeError).
    """
    found = call()
    if not inspect.isawaitable(found):
        raise DeclarationError(
            f"the step {name!r} has run and can't be recorded",
            f"its function has to be async; one that is not may run in a thread: await ctx.once({name!r}, "
            "asyncio.to_thread, function, ...)",
        )
    return found
