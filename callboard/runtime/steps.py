"""Steps of a handler that have no name of their own, and the tape of them while a run is recorded or replayed.

The manager of a run, and each of its members, opens a Tape for its handler and writes it with the commit; model clients
and tools note and ask here, and know nothing of runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, ParamSpec, Protocol, Self, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict

from callboard.broker.codec import message
from callboard.core.context import ContextScope, MessageContext, Recorder
from callboard.errors import CannotAskError

from .effects import steps_around
from .execution import Asking, Execution, current, speaker

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NumberedStep:
    """One recorded step of one run of a handler.

    Attributes:
        context: of the message that is handled.
        name: of the step; equal ones of a run are told apart by their numbers.
        number: from 1, in the order in which they began.
        execution: the run; None: not known, then there is no other of the name.
    """

    context: MessageContext
    name: str
    number: int
    execution: Execution | None

    @classmethod
    def begin(cls, name: str, context: MessageContext | None = None) -> Self | None:
        """The next step of this name. Begin it before anything is awaited: the order of steps is that of the calls.

        Args:
            name: The same for equal steps, and in every attempt at the message.
            context: Of the message. None: that of the handler that is running.

        Returns:
            None outside a handler, when it is over, and where nothing is recorded.
        """
        context = context or running_context()
        if context is None:
            return None
        execution = current.get()
        if execution is not None and (execution.is_over or execution.message_id != context.message_id):
            execution = None
        # guard: equal steps of a handler are told apart
        number = 1 if execution is None else execution.take_number(_counted(name, context))
        return cls(context, name, number, execution)

    @property
    def full_name(self) -> str:
        """Its name in the record."""
        return f"{self.name}:{self.number}"

    async def run(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """The recorded result, else that of the function, recorded first."""
        try:
            return await self.context.once(self.full_name, function, *args, **kwargs)
        except BaseException:
            # Nothing is recorded under this number. Were it not given back, the handler's own second try would be
            # recorded as number 2, and in the next attempt at the message, where the first try may succeed, number 1
            # would find no record and be made again.
            if self.execution is not None:
                self.execution.give_back(_counted(self.name, self.context), self.number)
            raise


def running_context() -> MessageContext | None:
    """The context of the handler that is running; None outside a handler, and in a task that outlived its handler.

    Inside a recorded step it is one of that step: what is recorded there is apart from what other steps record.
    """
    execution = current.get()
    if execution is None or execution.is_over:
        return None
    around = steps_around.get()
    # Two calls of one answer each have an agent charge 5 dollars, which is the same step by its name. The first is
    # recorded as a whole, then the process dies. In the next attempt nothing of the first is called, so the charge of the
    # second would be number 1, find the first one's record, and never be made.
    return execution.context if not around else context_inside(execution.context, around[-1])


def note_failed_request() -> None:
    """The handler that is running asked a server, such as one of a model, and got no answer."""
    if (execution := current.get()) is not None and not execution.is_over:
        execution.asking.failed += 1


def note_answer_of_model() -> None:
    """The handler that is running got an answer, now or in an earlier attempt."""
    if (execution := current.get()) is not None and not execution.is_over:
        execution.asking = Asking(answered=execution.asking.answered + 1)


def context_inside(context: MessageContext, step: str) -> MessageContext:
    """A context for what is done in a step: its steps, questions and idempotency keys are apart from those of others.

    Args:
        context: Of the handler, or of the step around this one.
        step: Name of the step in that context.
    """
    recorder = None if context.recorder is None else _InsideStep(context.recorder, f"{step}/")
    is_nested = isinstance(context.recorder, _InsideStep)
    scope = f"{context.scope}/{step}" if is_nested else f"{context.scope}\0{step}"
    return replace(context, recorder=recorder, scope=scope)


@dataclass(frozen=True, slots=True)
class _InsideStep:
    """Records what is done in a step."""

    recorder: Recorder
    prefix: str

    async def __call__(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        return await self.recorder(self.prefix + name, call)

    async def ask(self, text: str, *, prefix: str = "", **how: Any) -> Any:
        ask = getattr(self.recorder, "ask", None)
        if ask is None:
            raise CannotAskError("nothing records what this tool does; ask in a handler of an agent")
        return await ask(text, prefix=self.prefix + prefix, **how)


def _counted(name: str, context: MessageContext) -> str:
    """Steps with a context of their own, such as those of one call of a tool, are counted apart."""
    return f"{context.scope}\0{name}"


TakeKind: TypeAlias = Literal["model", "tool"]
MOST_TEXT: Final = 500  # characters that are kept of what was asked


@message(name="callboard.Take")
class Take(BaseModel):
    """One answer of a model or one result of a tool.

    Attributes:
        agent: who asked, such as "poets.writer".
        kind: whether a model answered or a tool.
        request: what was asked, as far as it takes to find it again and to say what differs.
        answer: what came back, as JSON; None: it was too large to be kept.
    """

    model_config = ConfigDict(frozen=True)

    agent: str
    kind: TakeKind
    request: dict[str, Any]
    answer: dict[str, Any] | None = None


@dataclass(slots=True)
class Tape:
    """The notes of one handler."""

    takes: list[Take] = field(default_factory=list)


class Player(Protocol):
    """Where answers come from while a run is replayed."""

    def answer_to(self, agent: str, kind: TakeKind, request: dict[str, Any]) -> dict[str, Any]:
        """The answer that was recorded.

        Raises:
            Exception: there is none to this request.
        """
        ...


tape_here: ContextVar[Tape | None] = ContextVar("callboard_tape", default=None)
player_here: ContextVar[Player | None] = ContextVar("callboard_player", default=None)


def taping(tape: Tape | None) -> ContextScope[Tape | None]:
    """Note what is answered in the `with` block; None: nothing, as inside a tool, of which only the result is noted."""
    return ContextScope(tape_here, tape)


def note(kind: TakeKind, request: dict[str, Any], answer: dict[str, Any]) -> None:
    """Note an answer, if the run is recorded."""
    tape = tape_here.get()
    if tape is not None:
        tape.takes.append(Take(agent=speaker(), kind=kind, request=request, answer=answer))


def is_taped() -> bool:
    """Whether the run is recorded here."""
    return tape_here.get() is not None


def played(kind: TakeKind, request: dict[str, Any]) -> dict[str, Any] | None:
    """The recorded answer; None: nothing is replayed here."""
    player = player_here.get()
    return None if player is None else player.answer_to(speaker(), kind, request)


def is_played() -> bool:
    """Whether something is replayed here."""
    return player_here.get() is not None
