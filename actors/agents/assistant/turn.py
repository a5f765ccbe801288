"""One turn of an assistant: from what it hears to what it says."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias

from callboard.agents.chat_agent import Response
from callboard.agents.errors import NoTextError
from callboard.agents.task import Said
from callboard.cancellation import CancellationToken
from callboard.memory.llm_messages import AssistantMessage, FunctionCall, FunctionExecutionResult
from callboard.messages.base import BaseChatMessage
from callboard.messages.chat import HandoffMessage, TextMessage
from callboard.messages.events import (
    MemoryQueryEvent,
    ModelClientStreamingChunkEvent,
    ThoughtEvent,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
)
from callboard.messages.structured import StructuredMessage
from callboard.models.types import CreateResult

from .bench import Bench
from .calls import Calls
from .draft import Draft
from .handing_over import Taken, first_handoff, handoff_message, settled
from .images import without_images
from .setup import Setup
from .summary import summary_of

Step: TypeAlias = Callable[[], AsyncGenerator[Said | Response, None]]


class Turn:
    """One turn of an assistant, as steps of which each chooses the next one.

    ```
    listen -> recall -> think -> say
                        ^   |
                        |   v
                        `- act -> reflect -> say
                             |--> summarise
                             `--> hand over
    ```

    Args:
        setup: The assistant.
        draft: What the turn adds to its context.
        messages: What is new.
        token: Ends it.
    """

    def __init__(
        self, setup: Setup, draft: Draft, messages: Sequence[BaseChatMessage], token: CancellationToken
    ) -> None:
        self._setup = setup
        self._draft = draft
        self._heard = messages
        self._token = token
        self._bench = Bench(setup.workbenches)
        self._inner: list[Said] = []
        self._next: Step | None = self._listen
        self._message_id = ""  # of what the pieces of the next answer become
        self._rounds = 0  # how often the model was asked with tools
        self._answer: CreateResult | None = None
        self._calls: list[FunctionCall] = []
        self._results: list[FunctionExecutionResult] = []
        self._taken: Taken | None = None

    async def run(self) -> AsyncGenerator[Said | Response, None]:
        """Take all steps; yields what happens, and at last the Response."""
        while self._next is not None:
            step, self._next = self._next, None
            async with aclosing(step()) as items:
                async for item in items:
                    yield item

    # The steps

    async def _listen(self) -> AsyncGenerator[Said | Response, None]:
        for message in self._heard:
            if isinstance(message, HandoffMessage):
                for along in message.context:
                    await self._draft.add_message(along)
            await self._draft.add_message(message.to_model_message())
        self._next = self._recall
        return
        yield

    async def _recall(self) -> AsyncGenerator[Said | Response, None]:
        for memory in self._setup.memory:
            found = (await memory.update_context(self._draft)).memories.results
            if found:
                yield self._noted(MemoryQueryEvent(content=found, source=self._setup.name))
        self._next = self._think

    async def _think(self) -> AsyncGenerator[Said | Response, None]:
        self._rounds += 1
        self._message_id = str(
            uuid.uuid4()
        )  # AutoGen gives that of a round's pieces to its thought, or to the next round
        async with aclosing(self._ask(tools=await self._bench.list_tools())) as items:
            async for item in items:
                yield item
        answer = self._answered()
        if isinstance(answer.content, str):
            self._next = self._say
            return
        if answer.thought:
            yield self._noted(self._thought(answer.thought))
        self._calls = list(answer.content)
        await self._draft.add_calls(self._calls, answer.thought)
        self._next = self._act

    async def _act(self) -> AsyncGenerator[Said | Response, None]:
        setup, usage = self._setup, self._answered().usage
        yield self._noted(ToolCallRequestEvent(content=self._calls, source=setup.name, models_usage=usage))
        self._taken = first_handoff(self._calls, setup.handoffs)
        known = {} if self._taken is None else settled(self._calls, setup.handoffs, self._taken)
        to_run = [call for number, call in enumerate(self._calls) if number not in known]
        calls = Calls(to_run, self._bench, self._draft, self._token)
        self._draft.act()
        async with aclosing(calls.run()) as items:
            async for item in items:
                yield self._noted(item)
        rest = iter(calls.results)
        self._results = [known.get(number) or next(rest) for number in range(len(self._calls))]
        await self._draft.add_results(self._results)
        yield self._noted(ToolCallExecutionEvent(content=self._results, source=setup.name))
        self._next = self._after_acting()

    def _after_acting(self) -> Step:
        if self._taken is not None:
            return self._hand_over
        if self._rounds < self._setup.max_tool_iterations:
            return self._think
        return self._reflect if self._setup.reflects else self._summarise

    async def _reflect(self) -> AsyncGenerator[Said | Response, None]:
        self._message_id = str(uuid.uuid4())
        async with aclosing(self._ask(tool_choice="none")) as items:
            async for item in items:
                yield item
        if not isinstance(self._answered().content, str):
            raise NoTextError(self._setup.name)
        self._next = self._say

    async def _say(self) -> AsyncGenerator[Said | Response, None]:
        answer = self._answered()
        if answer.thought:
            yield self._noted(self._thought(answer.thought))
        message = self._message(str(answer.content), answer)
        said = AssistantMessage(content=answer.content, source=self._setup.name, thought=answer.thought)
        await self._draft.add_message(said)
        yield self._response(message)

    async def _summarise(self) -> AsyncGenerator[Said | Response, None]:
        setup = self._setup
        yield self._response(summary_of(self._calls, self._results, setup.formatter, setup.name))

    async def _hand_over(self) -> AsyncGenerator[Said | Response, None]:
        setup, thought = self._setup, self._answered().thought
        assert self._taken is not None  # noqa: S101 - `_after_acting` looks
        yield self._response(
            handoff_message(self._taken, self._calls, self._results, setup.handoffs, thought, setup.name)
        )

    # What steps are made of

    async def _ask(self, **options: Any) -> AsyncGenerator[Said, None]:
        """Ask the model; yields the pieces of its answer as they come."""
        setup = self._setup
        self._answer = None
        prompt = [*setup.system, *await self._draft.get_messages()]
        if not setup.model_info["vision"]:
            prompt = without_images(prompt)
        options = {**options, "json_output": setup.output_type, "cancellation_token": self._token}
        if not setup.is_streamed:
            self._answer = await setup.client.create(prompt, **options)
            return
        async with aclosing(setup.client.create_stream(prompt, **options)) as items:
            async for item in items:
                if isinstance(item, CreateResult):
                    self._answer = item
                else:
                    yield ModelClientStreamingChunkEvent(
                        content=item, source=setup.name, full_message_id=self._message_id
                    )

    def _answered(self) -> CreateResult:
        """The last answer of the model."""
        if self._answer is None:
            raise NoTextError(self._setup.name)
        return self._answer

    def _message(self, content: str, answer: CreateResult) -> BaseChatMessage:
        """A text of the model as what the assistant says."""
        setup = self._setup
        known: dict[str, Any] = {
            "source": setup.name,
            "models_usage": answer.usage,
            "id": self._message_id,
        }
        if setup.output_type is None:
            return TextMessage(content=content, **known)
        value = setup.output_type.model_validate_json(content)
        cls: Any = StructuredMessage[setup.output_type]  # type: ignore[name-defined]
        message: BaseChatMessage = cls(content=value, format_string=setup.output_format, **known)
        return message

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
