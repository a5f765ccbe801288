"""One turn of an assistant: from what it hears to what it says."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Self, TypeAlias

from pydantic import BaseModel

from callboard.core.cancellation import CancellationToken
from callboard.core.people import OnInput
from callboard.memory.base import Memory
from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResult,
    LLMMessage,
    SystemMessage,
    UserMessage,
)
from callboard.messages.chat import (
    BaseChatMessage,
    HandoffMessage,
    StopMessage,
    StructuredMessage,
    TextMessage,
    ToolCallSummaryMessage,
)
from callboard.messages.events import (
    MemoryQueryEvent,
    ModelClientStreamingChunkEvent,
    ThoughtEvent,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
)
from callboard.models.base import ChatCompletionClient
from callboard.models.info import ModelInfo
from callboard.models.types import CreateResult, metadata_of
from callboard.tools.approval import NeedsApproval
from callboard.tools.call import IfUnknown
from callboard.tools.workbench import Workbench

from .base import Response, Said
from .draft import Draft, recall, without_images
from .errors import NoResponseError
from .guardrails import Guardrail, GuardrailChain, Refused
from .handoff import Handoff, Taken, along_with, first_handoff, handoff_message, settled
from .tool_calls import Bench, Calls, as_run, as_sent

Happening: TypeAlias = AsyncGenerator[Said | Response, None]
Step: TypeAlias = Callable[[], Happening]
SOURCE: Final = "guardrail"


class AssistantTurn:
    """One turn of an assistant, as steps of which each chooses the next one.

    ```
    listen -> recall -> think -> say
      |                 ^   |     ^ |
      v                 |   v     | v
    refuse              `- act -> reflect <- try again
                             |--> summarise -^
                             `--> hand over
    ```

    Args:
        setup: The assistant.
        guardrails: Its guardrails.
        draft: What the turn adds to its context.
        messages: What is new.
        token: Ends it.
    """

    def __init__(
        self,
        setup: Setup,
        guardrails: GuardrailChain,
        draft: Draft,
        messages: Sequence[BaseChatMessage],
        token: CancellationToken,
    ) -> None:
        self._setup = setup
        self._guardrails = guardrails
        self._draft = draft
        self._heard = messages
        self._token = token
        self._bench = Bench(setup.workbenches)
        self._inner: list[Said] = []
        self._next: Step | None = self._listen
        self._rounds = 0  # how often the model was asked with tools
        self._message_id = ""  # of what the pieces of the last answer become
        self._answer: CreateResult | None = None
        self._seen: Sequence[LLMMessage] = ()  # of the conversation, by the model
        self._calls: list[FunctionCall] = []
        self._refused: dict[int, FunctionExecutionResult] = {}  # by the numbers of calls
        self._results: list[FunctionExecutionResult] = []
        self._refusals = 0  # of answers
        self._aside: list[LLMMessage] = []  # refused answers, which only the next prompts of this turn have

    async def run(self) -> Happening:
        """Take all steps; yields what happens, and at last the Response."""
        while self._next is not None:
            step, self._next = self._next, None
            async with aclosing(step()) as items:
                async for item in items:
                    yield item

    # The steps

    async def _listen(self) -> Happening:
        heard = await self._guardrails.task(self._heard) if self._heard else self._heard
        if isinstance(heard, Refused):
            yield self._response(refusal(heard, self._setup.name))
            return
        for message in heard:
            if isinstance(message, HandoffMessage):
                for along in message.context:
                    await self._draft.add_message(along)
            await self._draft.add_message(message.to_model_message())
        self._next = self._recall

    async def _recall(self) -> Happening:
        for number, memory in enumerate(self._setup.memory):
            found = (await recall(memory, number, self._draft)).found
            if found:
                yield self._noted(MemoryQueryEvent(content=found, source=self._setup.name))
        self._next = self._think

    async def _think(self) -> Happening:
        self._rounds += 1
        async with aclosing(self._ask(tools=await self._bench.list_tools())) as items:
            async for item in items:
                yield item
        answer = self._answered()
        if isinstance(answer.content, str):
            self._next = self._say
            return
        if answer.thought:
            yield self._noted(self._thought(answer.thought))
        await self._check(answer.content)
        await self._draft.add_calls(self._calls, answer)
        self._next = self._act

    async def _act(self) -> Happening:
        setup, calls, usage = self._setup, self._calls, self._answered().usage
        yield self._noted(ToolCallRequestEvent(content=calls, source=setup.name, models_usage=usage))
        taken = first_handoff(calls, setup.handoffs, self._refused)
        known = {**settled(calls, setup.handoffs, taken), **self._refused}
        for number, call in enumerate(calls):
            if number not in known and call.name in setup.here:
                # Recorded as other calls are, it would not be called when the turn is repeated, and the agent of that
                # attempt, which is made from the last commit, would lack the handoff that the record says was created.
                # guard: what changes the agent itself is done again in every attempt
                known[number] = await setup.here[call.name](call)
        to_run = [call for number, call in enumerate(calls) if number not in known]
        running = Calls(
            to_run,
            self._bench,
            self._draft,
            self._token,
            setup.if_unknown,
            setup.needs_approval,
            setup.on_input,
        )
        self._draft.act(known)
        async with aclosing(running.run()) as items:
            async for item in items:
                yield self._noted(item)
        rest = iter(running.results)
        self._results = [known.get(number) or next(rest) for number in range(len(calls))]
        await self._draft.add_results(self._results)
        yield self._noted(ToolCallExecutionEvent(content=self._results, source=setup.name))
        self._next = self._after_acting(taken)

    def _after_acting(self, taken: Taken | None) -> Step:
        if taken is not None:
            return partial(self._hand_over, taken)
        if self._rounds < self._setup.max_tool_iterations:
            return self._think
        return self._reflect if self._setup.reflects else self._summarise

    async def _reflect(self) -> Happening:
        async with aclosing(self._ask(tool_choice="none")) as items:
            async for item in items:
                yield item
        if not isinstance(self._answered().content, str):
            raise _no_text(self._setup.name)
        self._next = self._say

    async def _say(self) -> Happening:
        answer, name = self._answered(), self._setup.name
        message = spoken(self._setup, answer, self._message_id)
        passed = await self._guardrails.answer(message)
        if isinstance(passed, Refused):
            self._next = partial(self._try_again, message, passed)
            return
        if answer.thought:
            yield self._noted(self._thought(answer.thought))
        content = answer.content if passed is message else passed.to_model_text()
        told = AssistantMessage(content=content, source=name, thought=answer.thought, vendor=answer.vendor)
        await self._draft.add_message(told)
        yield self._response(passed)

    async def _summarise(self) -> Happening:
        setup = self._setup
        message = summary_of(self._calls, self._results, setup.formatter, setup.name)
        passed = await self._guardrails.answer(message)
        if isinstance(passed, Refused):
            self._next = partial(self._try_again, message, passed)
            return
        yield self._response(passed)

    async def _try_again(self, message: BaseChatMessage, refused: Refused) -> Happening:
        self._refusals += 1
        name, text = self._setup.name, message.to_model_text()
        if self._refusals > self._setup.max_answer_refusals:
            last = no_answer(refused, name)
            await self._draft.add_message(AssistantMessage(content=last.content, source=name))
            yield self._response(last)
            return
        self._aside.append(AssistantMessage(content=text, source=name))
        self._aside.append(UserMessage(content=try_again(refused), source=SOURCE))
        self._next = self._reflect

    async def _hand_over(self, taken: Taken) -> Happening:
        name, handoffs, thought = self._setup.name, self._setup.handoffs, self._answered().thought
        along = along_with(self._calls, self._results, handoffs, thought, name)
        result = self._results[taken.number]
        yield self._response(await handoff_message(taken, along, self._seen, result, name))

    # What steps are made of

    async def _ask(self, **options: Any) -> AsyncGenerator[Said, None]:
        """Ask the model; yields the pieces of its answer as they come."""
        # Each answer has an id of its own. AutoGen gives the pieces of one round that of the next one's answer, or that of
        # the thought that comes with it.
        self._message_id = str(uuid.uuid4())
        self._answer = None
        self._seen = await self._draft.get_messages()
        shows_pieces = self._setup.is_streamed and not self._guardrails.checks_answers
        prompt = Prompt(
            self._setup, [*self._seen, *self._aside], self._message_id, shows_pieces, self._token, **options
        )
        async with aclosing(prompt.ask()) as items:
            async for item in items:
                yield item
        self._answer = prompt.answer

    def _answered(self) -> CreateResult:
        """The last answer of the model."""
        if self._answer is None:
            raise _no_result(self._setup.name)
        return self._answer

    async def _check(self, calls: Sequence[FunctionCall]) -> None:
        """Take over calls as the guardrails let them go on, and the results of those that they refuse."""
        self._calls, self._refused = [], {}
        for number, written in enumerate(calls):
            call = await as_sent(self._bench, written) if self._guardrails else written
            passed = await self._guardrails.call(call, partial(as_run, self._bench))
            if isinstance(passed, Refused):
                self._refused[number] = refused_result(call, passed)
            self._calls.append(call if isinstance(passed, Refused) else passed)

    def _thought(self, content: str) -> ThoughtEvent:
        return ThoughtEvent(content=content, source=self._setup.name)

    def _noted(self, item: Said) -> Said:
        """Something that happened, which will be in the Response, too."""
        self._inner.append(item)
        return item

    def _response(self, message: BaseChatMessage) -> Response:
        """The end of the turn."""
        self._draft.settle()
        return Response(chat_message=message, inner_messages=self._inner)


CallHere: TypeAlias = Callable[[FunctionCall], Awaitable[FunctionExecutionResult]]

ToolCallSummaryFormatter: TypeAlias = Callable[[FunctionCall, FunctionExecutionResult], str]
"""The text for one call and its result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The settings of an assistant, shared by its conversations.

    Attributes:
        name: Of the agent; the source of all that it says.
        client: Its model, whose answers are recorded.
        is_streamed: Whether its answers are shown in pieces.
        system: What every prompt begins with.
        workbenches: Its tools; the last one has its handoffs.
        handoffs: By the names of their tools.
        memory: What is asked before it answers.
        reflects: Whether the model puts the results of tools into words.
        max_tool_iterations: How often the model may ask for tools in one turn.
        summary_format: What the formatter fills in, unless it is a function of the user's.
        formatter: Puts one result into words where the model does not.
        output_type: The model of its answers; None: they are texts.
        output_format: How people see that; None: as JSON.
        guardrails: What checks tasks, calls and answers.
        max_answer_refusals: How often the model may write another answer in place of a refused one.
        if_unknown: By tool, what to do when its outcome is unknown after a crash.
        needs_approval: By tool, which of its calls a person has to allow.
        on_input: Asks a person; None: those who are asked where it runs.
        metadata: Anything about it.
        here: By tool, what carries out a call that changes nothing but the agent itself. Such calls are carried out one
            after the other before the others, in every attempt of a turn: they are not recorded, for a turn that is made
            again in another process begins with the agent as it was before.
    """

    name: str
    client: ChatCompletionClient
    is_streamed: bool
    system: tuple[SystemMessage, ...]
    workbenches: tuple[Workbench, ...]
    handoffs: Mapping[str, Handoff]
    memory: tuple[Memory, ...]
    reflects: bool
    max_tool_iterations: int
    summary_format: str
    formatter: ToolCallSummaryFormatter
    output_type: type[BaseModel] | None
    output_format: str | None
    guardrails: tuple[Guardrail, ...]
    max_answer_refusals: int
    if_unknown: Mapping[str, IfUnknown]
    needs_approval: Mapping[str, NeedsApproval]
    on_input: OnInput | None
    metadata: Mapping[str, str]
    here: Mapping[str, CallHere] = field(default_factory=dict)

    @property
    def model_info(self) -> ModelInfo:
        """The abilities of the model."""
        return self.client.model_info

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # conversations share it


class Prompt:
    """One request to the model.

    Args:
        setup: The assistant.
        messages: The conversation.
        message_id: Of what the pieces of the answer become.
        shows_pieces: Whether they are shown.
        token: Ends it.
        options: More for the client.
    """

    def __init__(
        self,
        setup: Setup,
        messages: Sequence[LLMMessage],
        message_id: str,
        shows_pieces: bool,
        token: CancellationToken,
        **options: Any,
    ) -> None:
        self._setup = setup
        whole = [*setup.system, *messages]
        self._messages = whole if setup.model_info["vision"] else without_images(whole)
        self._message_id = message_id
        self._shows_pieces = shows_pieces
        self._options = {**options, "json_output": setup.output_type, "cancellation_token": token}
        self._answer: CreateResult | None = None

    async def ask(self) -> AsyncGenerator[Said, None]:
        """Ask; yields the pieces of the answer as they come."""
        client = self._setup.client
        if not self._shows_pieces:
            self._answer = await client.create(self._messages, **self._options)
            return
        async with aclosing(client.create_stream(self._messages, **self._options)) as items:
            async for item in items:
                if isinstance(item, CreateResult):
                    self._answer = item
                else:
                    yield ModelClientStreamingChunkEvent(
                        content=item, source=self._setup.name, full_message_id=self._message_id
                    )

    @property
    def answer(self) -> CreateResult:
        """The answer of the model.

        Raises:
            NoResponseError: Its stream had no end.
        """
        if self._answer is None:
            raise _no_result(self._setup.name)
        return self._answer


def spoken(setup: Setup, answer: CreateResult, message_id: str) -> BaseChatMessage:
    """A text of the model as what the assistant says.

    Raises:
        ValueError: It does not fit the model of its answers (pydantic's ValidationError).
    """
    content = str(answer.content)
    known: dict[str, Any] = {
        "source": setup.name,
        "models_usage": answer.usage,
        "id": message_id,
        "metadata": metadata_of(answer),
    }
    if setup.output_type is None:
        return TextMessage(content=content, **known)
    value = setup.output_type.model_validate_json(content)
    cls: Any = StructuredMessage[setup.output_type]  # type: ignore[name-defined]
    message: BaseChatMessage = cls(content=value, format_string=setup.output_format, **known)
    return message


def refusal(refused: Refused, source: str) -> BaseChatMessage:
    """The answer to a task that was refused."""
    cls = StopMessage if refused.stops else TextMessage
    return cls(content=refused.reason, source=source)


def by_format(format_string: str) -> ToolCallSummaryFormatter:
    """A formatter that fills in tool_name, arguments, result and is_error."""

    def formatted(call: FunctionCall, result: FunctionExecutionResult) -> str:
        return format_string.format(
            tool_name=call.name, arguments=call.arguments, result=result.content, is_error=result.is_error
        )

    return formatted


def summary_of(
    calls: Sequence[FunctionCall],
    results: Sequence[FunctionExecutionResult],
    formatter: ToolCallSummaryFormatter,
    source: str,
) -> ToolCallSummaryMessage:
    """The texts of calls and results, one below the other."""
    content = "\n".join(map(formatter, calls, results))
    return ToolCallSummaryMessage(
        content=content,
        source=source,
        tool_calls=list(calls),
        results=[result.without_images() for result in results],
    )


def refused_result(call: FunctionCall, refused: Refused) -> FunctionExecutionResult:
    """The result of a call that was refused."""
    return FunctionExecutionResult(
        content=f"Refused: {refused.reason}", name=call.name, call_id=call.id, is_error=True
    )


def try_again(refused: Refused) -> str:
    """For the model whose answer was refused."""
    return f"Nobody has seen this answer, because it was refused: {refused.reason}\nWrite another one in its place."


def no_answer(refused: Refused, source: str) -> TextMessage:
    """For those who wait for an answer, when every one was refused."""
    return TextMessage(content=f"I have no answer that I may give: {refused.reason}", source=source)


def _no_result(name: str) -> NoResponseError:
    """The error of a model client whose stream has no end."""
    return NoResponseError(
        f"The model client of {name!r} ended its stream without a result: the last item of `create_stream` has to be a "
        "CreateResult."
    )


def _no_text(name: str) -> NoResponseError:
    """The error of a model that was to put the results of tools into words, and asked for tools again or did not end."""
    return NoResponseError(
        f"Reflect on tool use produced no valid text response: the model of {name!r} answered with something else."
    )
