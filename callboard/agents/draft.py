"""Additions of one turn to a model context: what was heard, memories, and prompts for models that can't see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Protocol, Self

from pydantic import BaseModel, Field

from callboard.errors import MisuseError
from callboard.memory.base import Memory, MemoryContent, ModelContext
from callboard.memory.contexts import ChatCompletionContext
from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    UserMessage,
)
from callboard.messages.chat import BaseChatMessage, HandoffMessage
from callboard.models.base import ChatCompletionClient
from callboard.models.types import CreateResult
from callboard.runtime.steps import NumberedStep

CUT_OFF: Final = (
    "This call was cut off before its result was known. It may or may not have done its work: find out before you "
    "call it again."
)


class Draft:
    """Additions of one turn to a model context; no half turn stays there when the turn does not come to its end.

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
        """The messages that the model would see now."""
        return await self._context.get_messages()

    async def add_message(self, message: LLMMessage) -> None:
        """Add a message.

        Raises:
            MisuseError: Another turn of the same agent began before this one ended (a RuntimeError).
        """
        self._check()
        self._added += 1
        await self._context.add_message(message)

    async def add_calls(self, calls: Sequence[FunctionCall], answer: CreateResult) -> None:
        """Add calls of the model, which wait for results, with what came along in its answer."""
        self._open = list(calls)
        asked = AssistantMessage(
            content=list(calls), source=self._name, thought=answer.thought, vendor=answer.vendor
        )
        await self.add_message(asked)

    def act(self, known: Mapping[int, FunctionExecutionResult]) -> None:
        """Tools are about to be called.

        Args:
            known: The results of calls that are not made, by the numbers of the calls.

        Raises:
            MisuseError: As `add_message`.
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
            raise MisuseError(
                f"{self._name!r} began another turn before this one ended. An agent takes one turn at a time: give each "
                f"conversation an agent of its own, see `for_conversation`."
            )

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


class Recalled(BaseModel):
    """Answer of one memory.

    Attributes:
        added: For the model.
        found: What it found.
    """

    added: list[LLMMessage] = Field(default_factory=list)
    found: list[MemoryContent] = Field(default_factory=list)


async def recall(memory: Memory, number: int, context: ModelContext) -> Recalled:
    """Ask a memory, and add what it says to a context.

    Args:
        memory: The memory.
        number: Of it among those of its assistant.
        context: Looked at, and added to.
    """
    step = NumberedStep.begin(f"memory:{number}")
    recalled = await _asked(memory, context) if step is None else await _recorded(step, memory, context)
    for message in recalled.added:
        await context.add_message(message)
    return recalled


async def _recorded(step: NumberedStep, memory: Memory, context: ModelContext) -> Recalled:
    async def ask() -> dict[str, Any]:
        return (await _asked(memory, context)).model_dump(mode="json")

    # Memories change while a turn is repeated. Another result makes another prompt, for which no answer is recorded: the
    # model would be paid a second time, and calls of tools that have run would belong to no answer.
    # guard: what a memory found stays so, else the model were asked again
    return Recalled.model_validate(await step.run(ask))


async def _asked(memory: Memory, context: ModelContext) -> Recalled:
    aside = _Aside(context)
    update = await memory.update_context(aside)
    return Recalled(added=aside.added, found=update.memories.results)


class _Aside:
    """A context with what is not yet added to it."""

    def __init__(self, context: ModelContext) -> None:
        self._context = context
        self.added: list[LLMMessage] = []

    async def get_messages(self) -> list[LLMMessage]:
        return [*await self._context.get_messages(), *self.added]

    async def add_message(self, message: LLMMessage) -> None:
        self.added.append(message)


class TakesMessages(Protocol):
    """Receiver of messages: a model context, or the draft of a turn."""

    async def add_message(self, message: LLMMessage) -> None:
        """Add the newest message."""
        ...


async def add_heard(context: TakesMessages, messages: Sequence[BaseChatMessage]) -> None:
    """Add what was said to a context; of a handoff, first what comes along with it."""
    for message in messages:
        if isinstance(message, HandoffMessage):
            for along in message.context:
                await context.add_message(along)
        await context.add_message(message.to_model_message())


def fit_for(client: ChatCompletionClient, messages: Sequence[LLMMessage]) -> list[LLMMessage]:
    """The messages as the model can read them: without pictures where it can't see."""
    return list(messages) if client.model_info["vision"] else without_images(messages)


PLACEHOLDER: Final = "<image>"


def without_images(messages: Sequence[LLMMessage]) -> list[LLMMessage]:
    """The messages with a placeholder for each picture; texts that stood beside pictures get lines of their own."""
    return [_without(message) for message in messages]


def _without(message: LLMMessage) -> LLMMessage:
    if not isinstance(message, UserMessage) or isinstance(message.content, str):
        return message
    lines = [part if isinstance(part, str) else PLACEHOLDER for part in message.content]
    return UserMessage(content="\n".join(lines), source=message.source)
