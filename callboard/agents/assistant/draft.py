"""What one turn adds to a model context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from callboard.agents.errors import TurnOverError
from callboard.memory.contexts.base import ChatCompletionContext
from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
)

CUT_OFF: Final = (
    "This call was cut off before its result was known. It may or may not have done its work: find out before you "
    "call it again."
)


class Draft:
    """What one turn adds to a model context; no half turn stays there when the turn does not come to its end.

    As long as no tool was called, all of it is taken back then: the turn can be made again. Afterwards it stays, for the
    model has to know what it has done, and calls without a result get one that says so. In AutoGen such calls stay as
    they are, and servers refuse every later request.

    A memory may look at it and add to it.

    Args:
        name: Of the agent.
        context: What is added to.
    """

    def __init__(self, name: str, context: ChatCompletionContext) -> None:
        self._name = name
        self._context = context
        self._mark = context.mark()
        self._added = 0
        self._open: list[FunctionCall] = []
        self._known: dict[FunctionCall, FunctionExecutionResult] = {}
        self._has_acted = False
        self._is_over = False

    async def get_messages(self) -> list[LLMMessage]:
        """What the model would see now."""
        return await self._context.get_messages()

    async def add_message(self, message: LLMMessage) -> None:
        """Add a message.

        Raises:
            TurnOverError: Another turn of the same agent began before this one ended (a RuntimeError).
        """
        self._check()
        self._added += 1
        await self._context.add_message(message)

    async def add_calls(self, calls: Sequence[FunctionCall], thought: str | None) -> None:
        """Add calls of the model, which wait for results."""
        self._open = list(calls)
        await self.add_message(AssistantMessage(content=list(calls), source=self._name, thought=thought))

    def act(self, known: Mapping[int, FunctionExecutionResult]) -> None:
        """Tools are about to be called.

        Args:
            known: The results of calls that are not made, by the numbers of the calls.

        Raises:
            TurnOverError: As `add_message`.
        """
        self._check()
        self._has_acted = True
        self._known = {self._open[number]: result for number, result in known.items()}

    def know(self, call: FunctionCall, result: FunctionExecutionResult) -> None:
        """One of the calls has a result."""
        self._known[call] = result

    async def add_results(self, results: Sequence[FunctionExecutionResult]) -> None:
        """Add the results of all calls that wait."""
        self._open, self._known = [], {}
        await self.add_message(FunctionExecutionResultMessage(content=list(results)))

    def settle(self) -> None:
        """The turn has come to its end: what it added stays."""
        self._is_over = True

    async def give_up(self) -> None:
        """The turn ends here, unless it has come to its end."""
        if self._is_over:
            return
        if self._has_acted or not self._context.go_back(self._mark, added=self._added):
            await self._complete()
        self._is_over = True

    def _check(self) -> None:
        if self._is_over:
            raise TurnOverError(self._name)

    async def _complete(self) -> None:
        if self._open:
            await self.add_results([self._known.get(call) or _cut_off(call) for call in self._open])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.give_up()


def _cut_off(call: FunctionCall) -> FunctionExecutionResult:
    return FunctionExecutionResult(content=CUT_OFF, name=call.name, call_id=call.id, is_error=True)
