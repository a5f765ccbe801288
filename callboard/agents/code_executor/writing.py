"""One turn of an agent that writes code and runs it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict

from callboard.agents.assistant.draft import Draft
from callboard.agents.chat_agent import Response
from callboard.agents.errors import ModelAnswerError
from callboard.agents.prompts import add_heard, fit_for
from callboard.agents.task import Said
from callboard.cancellation import CancellationToken
from callboard.code import CodeBlock, CodeResult
from callboard.memory.llm_messages import AssistantMessage, SystemMessage, UserMessage
from callboard.messages.base import BaseChatMessage
from callboard.messages.chat import TextMessage
from callboard.messages.events import (
    CodeExecutionEvent,
    CodeGenerationEvent,
    ModelClientStreamingChunkEvent,
    ThoughtEvent,
)
from callboard.models.base import ChatCompletionClient
from callboard.models.types import CreateResult, RequestUsage

from .blocks import code_blocks_in
from .running import CodeRunner

RETRY: Final = (
    "The last code did not work:\n{output}\n\n"
    "Is it worth another try? Answer with `retry`, whether it is, and with `reason`: what is wrong, why you decide so, "
    "and how you would mend it."
)
CORRECTION: Final = "Attempt number: {number}\nProposed correction: {reason}"


class RetryDecision(BaseModel):
    """What the model decides about code that failed.

    Attributes:
        reason: What is wrong, and how to mend it.
        retry: Whether to try again.
    """

    model_config = ConfigDict(frozen=True)

    reason: str
    retry: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """The settings of an agent that writes code.

    Attributes:
        name: Of the agent.
        client: Its model, whose answers are recorded.
        is_streamed: Whether its answers are shown in pieces.
        system: What every prompt begins with.
        languages: Of the code that is run.
        retries: How often it may try again when code fails.
        runner: Runs the code.
    """

    name: str
    client: ChatCompletionClient
    is_streamed: bool
    system: Sequence[SystemMessage]
    languages: Sequence[str]
    retries: int
    runner: CodeRunner

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # conversations share it


class WritingTurn:
    """One turn: hear, write and run code until it works or may not be tried again, and say what came of it.

    Args:
        setup: The agent.
        draft: What the turn adds to its model context: nothing, when the turn fails before any code was run.
        token: Ends the turn.
    """

    def __init__(self, setup: Writing, draft: Draft, token: CancellationToken) -> None:
        self._setup = setup
        self._draft = draft
        self._token = token
        self._inner: list[Said] = []
        self._answer = ""
        self._usage: RequestUsage | None = None
        self._result: CodeResult | None = None

    async def run(self, messages: Sequence[BaseChatMessage]) -> AsyncGenerator[Said | Response, None]:
        """The turn; yields what happens on the way, and at last the Response."""
        await add_heard(self._draft, messages)
        for number in range(self._setup.retries + 1):
            message_id = str(uuid.uuid4())
            async with aclosing(self._think(message_id)) as items:
                async for item in items:
                    yield item
            blocks = code_blocks_in(self._answer, self._setup.languages)
            if not blocks:
                yield self._response(message_id)
                return
            async with aclosing(self._try(number, blocks, message_id)) as items:
                async for item in items:
                    yield item
            if self._result is None or self._result.exit_code == 0 or number == self._setup.retries:
                break
            correction = await self._correction(number, self._result)
            if correction is None:
                break
            yield self._noted(correction)
        message_id = str(uuid.uuid4())
        async with aclosing(self._think(message_id)) as items:
            async for item in items:
                yield item
        yield self._response(message_id)

    # Steps

    async def _think(self, message_id: str) -> AsyncGenerator[Said, None]:
        """The model answers; its text is kept in `_answer`."""
        client, name = self._setup.client, self._setup.name
        prompt = fit_for(client, [*self._setup.system, *await self._draft.get_messages()])
        result: CreateResult | None = None
        if self._setup.is_streamed:
            async with aclosing(client.create_stream(prompt, cancellation_token=self._token)) as items:
                async for item in items:
                    if isinstance(item, CreateResult):
                        result = item
                        break
                    yield ModelClientStreamingChunkEvent(
                        content=item, source=name, full_message_id=message_id
                    )
        else:
            result = await client.create(prompt, cancellation_token=self._token)
        if result is None or not isinstance(result.content, str):
            raise ModelAnswerError(name, "answered with something else than a text")
        self._answer, self._usage = result.content, result.usage
        if result.thought:
            yield self._noted(ThoughtEvent(content=result.thought, source=name))
        await self._draft.add_message(
            AssistantMessage(content=result.content, source=name, thought=result.thought)
        )

    async def _try(self, number: int, blocks: list[CodeBlock], message_id: str) -> AsyncGenerator[Said, None]:
        name = self._setup.name
        yield self._noted(
            CodeGenerationEvent(
                id=message_id,
                retry_attempt=number,
                content=self._answer,
                code_blocks=blocks,
                source=name,
                models_usage=self._usage,
            )
        )
        seen = await self._draft.get_messages()
        self._draft.act({})
        self._result = await self._setup.runner.run(blocks, seen, self._token)
        await self._draft.add_message(UserMessage(content=self._result.output, source=name))
        yield self._noted(CodeExecutionEvent(retry_attempt=number, result=self._result, source=name))

    async def _correction(self, number: int, failed: CodeResult) -> CodeGenerationEvent | None:
        """What the model would do better; None: it would not try again."""
        setup = self._setup
        question = UserMessage(content=RETRY.format(output=failed.output), source=setup.name)
        prompt = fit_for(setup.client, [*await self._draft.get_messages(), question])
        answer = await setup.client.create(prompt, json_output=RetryDecision, cancellation_token=self._token)
        try:
            decision = RetryDecision.model_validate_json(str(answer.content))
        except ValueError as error:
            raise ModelAnswerError(setup.name, "gave no decision whether to try again") from error
        if not decision.retry:
            return None
        return CodeGenerationEvent(
            retry_attempt=number,
            content=CORRECTION.format(number=number + 1, reason=decision.reason),
            code_blocks=[],
            source=setup.name,
            models_usage=answer.usage,
        )

    def _response(self, message_id: str) -> Response:
        self._draft.settle()
        said = TextMessage(
            id=message_id, content=self._answer, source=self._setup.name, models_usage=self._usage
        )
        return Response(chat_message=said, inner_messages=self._inner)

    def _noted(self, event: Said) -> Said:
        self._inner.append(event)
        return event
