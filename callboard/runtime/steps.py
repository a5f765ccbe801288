"""Steps of a handler that have no name of their own: recorded under what they are and their number among equal ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ParamSpec, Self, TypeVar

from callboard.context import MessageContext

from .execution import Execution, current

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
        """What is recorded, else what the function returns, recorded first."""
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
    """The context of the handler that is running; None outside a handler, and in a task that outlived its handler."""
    execution = current.get()
    return None if execution is None or execution.is_over else execution.context


def _counted(name: str, context: MessageContext) -> str:
    """Steps with a context of their own, such as those of one call of a tool, are counted apart."""
    return f"{context.scope}\0{name}"
