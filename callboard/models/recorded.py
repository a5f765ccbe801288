"""Recorded answers: a crash after the answer does not pay for it again, and a tape gives it again without a network."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, Final, Self

from pydantic import BaseModel

from callboard.broker.errors import is_outage
from callboard.broker.telemetry import LISTENERS, ModelAsked, emit
from callboard.foundation.component import Component, ComponentModel, dumped
from callboard.memory.llm_messages import LLMMessage, SystemMessage
from callboard.runtime.execution import speaker
from callboard.runtime.steps import (
    MOST_TEXT,
    NumberedStep,
    is_played,
    is_taped,
    note,
    note_answer_of_model,
    played,
    running_context,
)

from .base import ChatCompletionClient, ModelRequest, WrappedChatCompletionClient
from .budget import in_run
from .cache import RecordedAnswer
from .errors import BadRequestError, BadResponseError
from .types import CreateResult, RequestUsage

TEXTS: Final = "texts"
"""In a request that is replayed: the beginnings of its messages, for people. No tape has them: they grow with the chat."""
MESSAGE_DIGITS: Final = 12  # of a message's hash


async def answer_of(request: ModelRequest, client: ChatCompletionClient) -> CreateResult:
    """The answer of a client, metered in a run; or the recorded one."""
    if is_played():
        return play(request)
    with _told(client.model) as answers:
        answers.append(await request.create(in_run(client)))
    return answers[0]


@contextmanager
def _told(model: str) -> Iterator[list[CreateResult]]:
    """Tell listeners how a request ended; gives the place for its answer."""
    answers: list[CreateResult] = []
    if not LISTENERS:
        yield answers
        return
    begun, status = time.monotonic(), "error"
    try:
        yield answers
        status = "ok"
    except Exception as error:
        status = "outage" if is_outage(error) else "error"
        raise
    finally:
        used = answers[0].usage if answers else RequestUsage(0, 0)
        tokens = (used.prompt_tokens, used.completion_tokens, used.cached_tokens, used.reasoning_tokens)
        emit(ModelAsked, speaker(), model, status, time.monotonic() - begun, *tokens)


def play(request: ModelRequest) -> CreateResult:
    """The recorded answer."""
    texts = [str(message.content)[:MOST_TEXT] for message in request.messages]
    return CreateResult.model_validate(played("model", described(request) | {TEXTS: texts}))


def note_answer(request: ModelRequest, result: CreateResult) -> None:
    """Note an answer on the tape, if there is one."""
    if is_taped():
        note("model", described(request), result.model_dump(mode="json"))


def described(request: ModelRequest) -> dict[str, Any]:
    """A request as a tape has it: a hash of each message, texts of the last and of the system's, the names of the tools."""
    last = request.messages[-1] if request.messages else None
    system = next((str(one.content) for one in request.messages if isinstance(one, SystemMessage)), "")
    return {
        "messages": [f"{message.type} {_digest(message)}" for message in request.messages],
        "tools": sorted(_name(tool) for tool in request.tools),
        "last": "" if last is None else str(last.content)[:MOST_TEXT],
        "system": system[:MOST_TEXT],
    }


def _digest(message: LLMMessage) -> str:
    data = message.model_dump_json().encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()[:MESSAGE_DIGITS]


def _name(tool: Any) -> str:
    return str(tool["name"] if isinstance(tool, dict) else tool.name)


REQUEST_DIGITS: Final = 32  # of the request's hash


class RecordedChatCompletionClientConfig(BaseModel):
    """The client whose answers are recorded, as plain data."""

    client: ComponentModel


class RecordedChatCompletionClient(
    WrappedChatCompletionClient, Component[RecordedChatCompletionClientConfig]
):
    """A client whose answers are recorded for the message that is being handled, as `ctx.once` does it.

    Inside a handler every answer is stored before the handler goes on. When the message is handled again, in the
    same process or in another, a request that was answered before gets that answer, and no model is asked. Outside a
    handler, and in tasks that outlive theirs, requests just pass through. The client finds the message by
    itself.

    A recorded answer belongs to the hash of its request and to its number among the equal ones that were answered, so that
    several requests at once get their own answers in whatever order they come. A handler that asks something else the
    second time (because the time of day, or what an agent keeps in memory only, is part of its prompt) asks the model:
    an answer never goes to another question. Where an answer should count whatever the prompt is, give the step a name:
    `await ctx.once("plan", client.create, messages)`.

    A stream is recorded as its result: repeated, it gives its text in one piece.

    Inside a run it is metered as well (`in_run`): what the run uses is counted, and kept within its budget.

    Put it around everything else, so that repeated answers are neither counted as usage nor held up by a budget:
    `RecordedChatCompletionClient(MeteredChatCompletionClient(client))`.

    Args:
        client: asked for answers that are not recorded.
    """

    component_config_schema = RecordedChatCompletionClientConfig
    component_provider_override = "callboard.models.RecordedChatCompletionClient"

    async def _create(self, request: ModelRequest) -> CreateResult:
        step = self._step(request)
        if step is None:
            result = await answer_of(request, self.client)
        else:
            result = await step.run(answer_of, request, self.client)
        note_answer_of_model()
        note_answer(request, result)
        return result

    async def _create_stream(self, request: ModelRequest) -> AsyncGenerator[str | CreateResult, None]:
        step = self._step(request)
        if step is None:
            async with aclosing(_items(request, self.client)) as items:
                async for item in items:
                    if isinstance(item, CreateResult):
                        note_answer(request, item)
                    yield item
            return
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        recording = asyncio.ensure_future(step.run(self._drain, request, pieces))
        recording.add_done_callback(lambda _: pieces.put_nowait(None))
        has_piece = False
        try:
            while (piece := await pieces.get()) is not None:
                has_piece = True
                yield piece
            result = await recording
        finally:
            # A handler that stops listening in the middle ends the request as well; nothing is recorded then. Awaited, so
            # that the number of this request is free again before the handler makes the next one.
            recording.cancel()
            await asyncio.gather(recording, return_exceptions=True)
        note_answer_of_model()
        note_answer(request, result)
        for again in [result] if has_piece else RecordedAnswer(result=result).items():
            yield again

    async def _drain(self, request: ModelRequest, pieces: asyncio.Queue[str | None]) -> CreateResult:
        async with aclosing(_items(request, self.client)) as items:
            async for item in items:
                if isinstance(item, CreateResult):
                    return item
                pieces.put_nowait(item)
        raise BadResponseError(self.model, "the stream ended without a result")

    def _step(self, request: ModelRequest) -> NumberedStep | None:
        """The step that records the answer; None outside a handler, and when it is over."""
        # The name takes longer the longer the conversation is, and nothing needs it outside a handler.
        if running_context() is None:
            return None
        return NumberedStep.begin(f"model:{request.digest(self.client)[:REQUEST_DIGITS]}")

    def _to_config(self) -> RecordedChatCompletionClientConfig:
        return RecordedChatCompletionClientConfig(client=dumped(self.client, self))

    @classmethod
    def _from_config(cls, config: RecordedChatCompletionClientConfig) -> Self:
        return cls(ChatCompletionClient.load_component(config.client))


def recorded(client: ChatCompletionClient) -> ChatCompletionClient:
    """The client whose answers are recorded inside a handler of the bus; elsewhere it is as without.

    Raises:
        BadRequestError: It is no client, such as the name of a model (a TypeError).
    """
    if isinstance(client, RecordedChatCompletionClient):
        return client
    if isinstance(client, type) or not hasattr(client, "create"):
        advice = "give an object, such as OpenAIChatCompletionClient(model='gpt-4o')"
        raise BadRequestError(repr(client), f"it is no model client: {advice}")
    # guard: what a model answers an agent or a team is recorded before it is used
    return RecordedChatCompletionClient(client)


def unrecorded(client: ChatCompletionClient) -> ChatCompletionClient:
    """The client that was given, for a config: an agent that is made of it records the answers again."""
    return client.client if isinstance(client, RecordedChatCompletionClient) else client


async def _items(
    request: ModelRequest, client: ChatCompletionClient
) -> AsyncGenerator[str | CreateResult, None]:
    """The stream of a client, metered in a run; or the recorded answer."""
    if is_played():
        for again in RecordedAnswer(result=play(request)).items():
            yield again
        return
    with _told(client.model) as answers:
        async with aclosing(request.create_stream(in_run(client))) as items:
            async for item in items:
                if isinstance(item, CreateResult):
                    answers.append(item)
                yield item
