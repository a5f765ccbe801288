from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from callboard import ClosureContext, MessageContext, TopicId
from callboard.agents import AssistantAgent, UserProxyAgent
from callboard.memory.llm_messages import LLMMessage
from callboard.models import (
    ChatCompletionClient,
    CreateResult,
    Delayed,
    FunctionCall,
    RecordedChatCompletionClient,
    ReplayChatCompletionClient,
    Streamed,
    UserMessage,
)
from callboard.models.base import ModelRequest
from callboard.models.errors import BadRequestError, ModelConnectionError
from callboard.models.recorded import recorded, unrecorded
from callboard.models.replay import Answer
from callboard.teams import MagenticOneGroupChat, SelectorGroupChat
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Note, Runtimes, closure

from .asking import HELLO, stream_of

Handler = Callable[[ChatCompletionClient, MessageContext], Awaitable[object]]


@pytest.fixture
async def runtimes() -> AsyncIterator[Runtimes]:
    made = Runtimes(f"memory://recorded-{os.urandom(4).hex()}")
    yield made
    await made.close()


async def handled(
    runtimes: Runtimes,
    answers: Sequence[Answer] | ReplayChatCompletionClient,
    handler: Handler,
    attempts: int = 2,
) -> tuple[list[object], ReplayChatCompletionClient]:
    """The answers that a handler saw in each attempt, of which all but the last fail, and the model."""
    model = (
        answers if isinstance(answers, ReplayChatCompletionClient) else ReplayChatCompletionClient(answers)
    )
    client = RecordedChatCompletionClient(model)
    seen: list[object] = []

    async def on_note(_: ClosureContext, message: Note, ctx: MessageContext) -> None:
        seen.append(await handler(client, ctx))
        if ctx.attempt < attempts:
            raise RuntimeError("after the answer")

    runtime = runtimes.new()
    await closure(runtime, "thinker", on_note, "notes")
    runtime.start()
    await runtime.publish_message(Note(), TopicId("notes", "a"))
    await eventually(lambda: len(seen) == attempts)
    await runtime.stop_when_idle()
    return seen, model


class Halting(ReplayChatCompletionClient):
    """Its streams never come to their end."""

    async def _create_stream(self, request: ModelRequest) -> AsyncGenerator[str | CreateResult, None]:
        async for item in super()._create_stream(request):
            yield item
            await asyncio.Event().wait()


def about(text: str) -> list[LLMMessage]:
    return [UserMessage(content=text, source="user")]


async def test_another_attempt_gets_the_same_answer_and_no_model_is_asked(runtimes: Runtimes) -> None:
    async def handler(client: ChatCompletionClient, ctx: MessageContext) -> object:
        return (await client.create(HELLO)).content

    seen, model = await handled(runtimes, ["one", "two"], handler, attempts=3)
    assert seen == ["one"] * 3
    assert len(model.create_calls) == 1


async def test_calls_are_recorded_too(runtimes: Runtimes) -> None:
    async def handler(client: ChatCompletionClient, ctx: MessageContext) -> object:
        return (await client.create(HELLO)).content

    call = FunctionCall("1", '{"a": 1}', "f")
    seen, _ = await handled(runtimes, [[call]], handler)
    assert seen == [[call], [call]]


async def test_a_stream_is_recorded_as_its_result(runtimes: Runtimes) -> None:
    async def handler(client: ChatCompletionClient, ctx: MessageContext) -> object:
        pieces, answer = await stream_of(client)
        return pieces, answer.content, answer.thought

    seen, model = await handled(runtimes, [Streamed(["a", "b"], thought="hm")], handler)
    assert seen == [(["a", "b"], "ab", "hm"), (["ab"], "ab", "hm")]
    assert len(model.create_calls) == 1


async def test_equal_requests_have_answers_of_their_own(runtimes: Runtimes) -> None:
    async def handler(client: ChatCompletionClient, ctx: MessageContext) -> object:
        return [(await client.create(HELLO)).content for _ in range(2)]

    seen, _ = await handled(runtimes, ["one", "two"], handler)
    assert seen == [["one", "two"]] * 2


async def test_requests_at_once_get_their_own_answers_whatever_the_order(runtimes: Runtimes) -> None:
    async def handler(client: ChatCompletionClient, ctx: MessageContext) -> object:
        texts = ["a", "b", "c"] if ctx.attempt == 1 else ["c", "a", "b"]
        answers = await asyncio.gather(*(client.create(about(text)) for text in texts))
        return sorted(zip(texts, [answer.content for answer in answers], strict=True))

    def echo(messages: Sequence[LLMMessage]) -> Answer:
        return Delayed(0.0, f"about {messages[-1].content}")

    seen, model = await handled(runtimes, [echo] * 3, handler)
    assert seen == [[(text, f"about {text}") for text in "abc"]] * 2
    assert len(model.create_calls) == 3


async def test_an_answer_never_goes_to_another_question(runtimes: Runtimes) -> None:
    async def handler(client: ChatCompletionClient, ctx: MessageContext) -> object:
        return (await client.create(about(f"attempt {ctx.attempt}"))).content

    seen, _ = await handled(runtimes, ["one", "two"], handler)
    assert seen == ["one", "two"]


async def test_a_named_step_counts_for_any_prompt(runtimes: Runtimes) -> None:
    async def handler(client: ChatCompletionClient, ctx: MessageContext) -> object:
        return (await ctx.once("plan", client.create, about(f"attempt {ctx.attempt}"))).content

    seen, _ = await handled(runtimes, ["one", "two"], handler)
    assert seen == ["one", "one"]


async def test_failures_are_not_recorded(runtimes: Runtimes) -> None:
    async def handler(client: ChatCompletionClient, ctx: MessageContext) -> object:
        if ctx.attempt == 1:
            for ask in (client.create(HELLO), stream_of(client)):
                with pytest.raises(ModelConnectionError):
                    await ask
        return [(await client.create(HELLO)).content for _ in range(2)]

    gone = ModelConnectionError("m", "gone")
    seen, model = await handled(runtimes, [gone, Streamed(["a", gone]), "fine", "too"], handler)
    assert seen == [["fine", "too"]] * 2
    assert len(model.create_calls) == 4


async def test_a_stream_that_is_left_is_not_recorded(runtimes: Runtimes) -> None:
    async def handler(client: ChatCompletionClient, ctx: MessageContext) -> object:
        items = client.create_stream(HELLO)
        first = await anext(items)
        await items.aclose()
        return first

    seen, _ = await handled(runtimes, Halting(["a", "b"]), handler)
    assert seen == ["a", "b"]


async def test_outside_a_handler_requests_pass_through() -> None:
    model = ReplayChatCompletionClient(["one", "two", "three four"])
    client = RecordedChatCompletionClient(model)
    assert [(await client.create(HELLO)).content for _ in range(2)] == ["one", "two"]
    assert (await stream_of(client))[0] == ["three ", "four"]


async def test_a_task_that_outlives_its_handler_records_nothing(runtimes: Runtimes) -> None:
    go_on = asyncio.Event()
    tasks: list[asyncio.Task[str]] = []

    async def handler(client: ChatCompletionClient, ctx: MessageContext) -> object:
        async def late() -> str:
            await go_on.wait()
            return str((await client.create(HELLO)).content)

        tasks.append(asyncio.create_task(late()))
        return None

    await handled(runtimes, ["one"], handler, attempts=1)
    go_on.set()
    assert await tasks[0] == "one"
    runtime = runtimes.new()
    await runtime.open()
    assert await runtime.transport.names_after(runtime.transport.keys.of("once:")) == []


@pytest.mark.parametrize("given", ["gpt-4o", None, ReplayChatCompletionClient])
def test_what_is_no_client_is_refused_where_it_is_given(given: Any) -> None:
    makers: list[Callable[[], object]] = [
        lambda: AssistantAgent("a", given, tools=[print]),
        lambda: SelectorGroupChat([UserProxyAgent("a"), UserProxyAgent("b")], given),
        lambda: MagenticOneGroupChat([UserProxyAgent("a")], given),
    ]
    for make in makers:
        with pytest.raises(BadRequestError, match="is no model client: give an object, such as"):
            make()


def test_a_client_is_recorded_once() -> None:
    client = ReplayChatCompletionClient([])
    twice = recorded(recorded(client))
    assert isinstance(twice, RecordedChatCompletionClient)
    assert twice.client is client
    assert (unrecorded(twice), unrecorded(client)) == (client, client)
