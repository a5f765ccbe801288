"""One turn of an assistant: from what it hears to what it says."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, TypeAlias

from callboard.agents.chat_agent import Response
from callboard.agents.errors import NoTextError
from callboard.agents.guardrails.chain import GuardrailChain
from callboard.agents.guardrails.verdicts import Refused
from callboard.agents.task import Said
from callboard.cancellation import CancellationToken
from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResult,
    LLMMessage,
    UserMessage,
)
from callboard.messages.base import BaseChatMessage
from callboard.messages.chat import HandoffMessage
from callboard.messages.events import (
    MemoryQueryEvent,
    ThoughtEvent,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
)
from callboard.models.types import CreateResult

from . import wording
from .bench import Bench
from .calls import Calls
from .draft import Draft
from .handing_over import Taken, along_with, first_handoff, handoff_message, settled
from .prompt import Prompt
from .recall import recall
from .setup import Setup
from .speaking import refusal, spoken
from .summary import summary_of

Happening: TypeAlias = AsyncGenerator[Said | Response, None]
Step: TypeAlias = Callable[[], Happening]


class Turn:
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
        await self._draft.add_calls(self._calls, answer.thought)
        self._next = self._act

    async def _act(self) -> Happening:
        setup, calls, usage = self._setup, self._calls, self._answered().usage
        yield self._noted(ToolCallRequestEvent(content=calls, source=setup.name, models_usage=usage))
        taken = first_handoff(calls, setup.handoffs, self._refused)
        known = {**settled(calls, setup.handoffs, taken), **self._refused}
        for number, call in enumerate(calls):
            if number not in known and call.name in setup.here:
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
            raise NoTextError(self._setup.name)
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
        await self._draft.add_message(AssistantMessage(content=content, source=name, thought=answer.thought))
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
            last = wording.no_answer(refused, name)
            await self._draft.add_message(AssistantMessage(content=last.content, source=name))
            yield self._response(last)
            return
        self._aside.append(AssistantMessage(content=text, source=name))
        self._aside.append(UserMessage(content=wording.try_again(refused), source=wording.SOURCE))
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
            raise NoTextError(self._setup.name)
        return self._answer

    async def _check(self, calls: Sequence[FunctionCall]) -> None:
        """Take over calls as the guardrails let them go on, and the results of those that they refuse."""
        self._calls, self._refused = [], {}
        for number, call in enumerate(calls):
            passed = await self._guardrails.call(call)
            if isinstance(passed, Refused):
                self._refused[number] = wording.refused_result(call, passed)
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
