"""Streams, over real sockets."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from pydantic import BaseModel

from callboard import CancellationToken
from callboard.memory.llm_messages import FunctionCall, LLMMessage, UserMessage
from callboard.models.errors import (
    BadResponseError,
    ModelConnectionError,
    ModelError,
    ModelOverloadedError,
    ModelTimeoutError,
    RateLimitError,
)
from callboard.models.info import ModelInfo
from callboard.models.openai import OpenAIChatCompletionClient
from callboard.models.retries import ModelRetries
from callboard.models.types import CreateResult, RequestUsage
from tests.helpers.eventually import eventually
from tests.helpers.openai_server import (
    Answer,
    BrokenOff,
    Call,
    Chunks,
    Events,
    OpenAIServer,
    Raw,
    Slow,
    Usage,
    overloaded,
    rate_limited,
)

from .conftest import MakeClient, growing_limits

HELLO: list[LLMMessage] = [UserMessage(content="Hello", source="ada")]
ADD = {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}


class City(BaseModel):
    city: str


async def stream(client: OpenAIChatCompletionClient, **asked: Any) -> tuple[list[str], CreateResult]:
    """The pieces of a stream and its result."""
    items = [item async for item in client.create_stream(HELLO, **asked)]
    *pieces, result = items
    assert isinstance(result, CreateResult)
    assert all(isinstance(piece, str) for piece in pieces)
    return [str(piece) for piece in pieces], result


async def no_pause(seconds: float) -> None:
    """Takes the place of sleeping."""


async def test_a_text_in_pieces(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(Answer("Hello, Ada.", usage=Usage(prompt=11, completion=4)))

    pieces, result = await stream(client)

    assert len(pieces) > 1
    assert "".join(pieces) == result.content == "Hello, Ada."
    assert result.finish_reason == "stop"
    assert result.usage == client.actual_usage() == RequestUsage(11, 4)
    assert server.last.body["stream"] is True
    assert server.last.body["stream_options"] == {"include_usage": True}


async def test_streams_of_servers_that_refuse_to_count(server: OpenAIServer, make: MakeClient) -> None:
    client = make(include_stream_usage=False)
    server.script(Answer("a"), Answer("b"))

    _, result = await stream(client)
    assert result.usage == RequestUsage(0, 0)
    assert "stream_options" not in server.last.body
    _, result = await stream(client, include_usage=True)
    assert result.usage == RequestUsage(7, 3)


async def test_calls_in_pieces(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(Answer("Adding.", [Call("add", '{"a": 1}', "x1"), Call("add", '{"a": 22222}', "x2")]))

    pieces, result = await stream(client, tools=[ADD])

    assert "".join(pieces) == "Adding."
    assert result.content == [
        FunctionCall("x1", '{"a": 1}', "add"),
        FunctionCall("x2", '{"a": 22222}', "add"),
    ]
    assert result.thought == "Adding."
    assert result.finish_reason == "function_calls"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_comes_between_tags(
    server: OpenAIServer, client: OpenAIChatCompletionClient, field: str
) -> None:
    server.script(Answer("42", reasoning="six times seven", reasoning_field=field))

    pieces, result = await stream(client)

    assert "".join(pieces) == "<think>six times seven</think>42"
    assert (result.content, result.thought) == ("42", "six times seven")


async def test_reasoning_in_the_text(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(Answer("<think>six times seven</think>42"))

    pieces, result = await stream(client)

    assert "".join(pieces) == "<think>six times seven</think>42"
    assert (result.content, result.thought) == ("42", "six times seven")


async def test_logprobs_of_a_stream(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(Answer("ab", logprobs=[{"token": "a", "logprob": -1.0}, {"token": "b", "logprob": -2.0}]))

    _, result = await stream(client, extra_create_args={"logprobs": True})

    assert result.logprobs is not None
    assert [(entry.token, entry.logprob) for entry in result.logprobs] == [("a", -1.0), ("b", -2.0)]


async def test_a_refusal_in_pieces(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(Answer(None, refusal="I won't do that."))

    _, result = await stream(client)

    assert (result.content, result.finish_reason) == ("I won't do that.", "content_filter")


async def test_an_object_of_a_class(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(Answer('{"city": "Paris"}'), Answer('{"town": "Paris"}'))

    pieces, result = await stream(client, json_output=City)
    assert "".join(pieces) == result.content == '{"city": "Paris"}'
    assert server.last.body["response_format"]["type"] == "json_schema"
    with pytest.raises(BadResponseError, match="no City"):
        await stream(client, json_output=City)


async def test_calls_in_the_text_of_a_stream(server: OpenAIServer, make: MakeClient) -> None:
    server.script(Answer('{"name": "add", "arguments": {"a": 1}}'))

    _, result = await stream(make(tool_mode="lenient"), tools=[ADD])

    assert result.finish_reason == "function_calls"


async def test_a_schemas_answer_comes_in_one_piece(
    server: OpenAIServer, make: MakeClient, info: ModelInfo
) -> None:
    client = make(tool_mode="schema", model_info={**info, "function_calling": False})
    server.script(
        Answer('{"answer": "It is 3."}'), Answer('{"name": "add", "arguments": {"a": 1}}'), Answer("text")
    )

    pieces, result = await stream(client, tools=[ADD])
    assert (pieces, result.content) == (["It is 3."], "It is 3.")
    pieces, result = await stream(client, tools=[ADD])
    assert (pieces, result.finish_reason) == ([], "function_calls")
    pieces, _ = await stream(client)
    assert "".join(pieces) == "text"


# Odd servers


def called(*deltas: dict[str, Any]) -> Chunks:
    """A stream with these pieces of tool calls."""
    choices = [{"delta": {"tool_calls": [delta]}} for delta in deltas]
    return Chunks([*choices, {"delta": {}, "finish_reason": "tool_calls"}])


@pytest.mark.parametrize(
    "deltas",
    [
        # Without an index.
        [
            {"id": "x1", "function": {"name": "add", "arguments": '{"a"'}},
            {"function": {"arguments": ": 1}"}},
            {"id": "x2", "function": {"name": "sub", "arguments": "{}"}},
        ],
        # Always the same index.
        [
            {"index": 0, "id": "x1", "function": {"name": "add", "arguments": '{"a": 1}'}},
            {"index": 0, "id": "x2", "function": {"name": "sub", "arguments": "{}"}},
        ],
        # Id and name in every piece.
        [
            {"index": 0, "id": "x1", "function": {"name": "add", "arguments": '{"a"'}},
            {"index": 0, "id": "x1", "function": {"name": "add", "arguments": ": 1}"}},
            {"index": 1, "id": "x2", "function": {"name": "sub", "arguments": "{}"}},
        ],
        # A name in pieces, ids empty at first, and pieces of two calls in turn.
        [
            {"index": 0, "id": "", "function": {"name": "a"}},
            {"index": 1, "id": "x2", "function": {"name": "sub", "arguments": "{"}},
            {"index": 0, "id": "x1", "function": {"name": "dd", "arguments": ""}},
            {"index": 0, "function": {"arguments": '{"a": 1}'}},
            {"index": 1, "function": {"name": None, "arguments": "}"}},
            {"index": 1},
        ],
        # Whole arguments as an object.
        [
            {"index": 0, "id": "x1", "function": {"name": "add", "arguments": {"a": 1}}},
            {"index": 1, "id": "x2", "function": {"name": "sub", "arguments": {}}},
        ],
    ],
)
async def test_calls_as_servers_send_them(
    server: OpenAIServer, client: OpenAIChatCompletionClient, deltas: list[dict[str, Any]]
) -> None:
    server.script(called(*deltas))

    _, result = await stream(client, tools=[ADD, {"name": "sub"}])

    assert result.content == [FunctionCall("x1", '{"a": 1}', "add"), FunctionCall("x2", "{}", "sub")]


async def test_two_calls_of_one_tool_without_ids(
    server: OpenAIServer, client: OpenAIChatCompletionClient
) -> None:
    one = {"index": 0, "function": {"name": "add", "arguments": '{"a": 1}'}}
    server.script(called(one, {"index": 0, "function": {"name": "add", "arguments": '{"a": 2}'}}))

    _, result = await stream(client, tools=[ADD])

    assert isinstance(result.content, list)
    assert [call.arguments for call in result.content] == ['{"a": 1}', '{"a": 2}']
    assert len({call.id for call in result.content}) == 2


async def test_usage_in_every_chunk_is_the_sum_so_far(
    server: OpenAIServer, client: OpenAIChatCompletionClient
) -> None:
    chunk = '{{"choices": [{{"index": 0, "delta": {{"content": "a"}}, "finish_reason": {}}}], "usage": {}}}'
    first = chunk.format("null", '{"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}')
    last = chunk.format('"stop"', '{"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}')
    server.script(Events([": comment\n\n", f"data: {first}\n\n", f"data: {last}\n\n", "data: [DONE]\n\n"]))

    _, result = await stream(client)

    assert (result.content, result.usage) == ("aa", RequestUsage(5, 2))


async def test_a_stream_without_the_closing_event(
    server: OpenAIServer, client: OpenAIChatCompletionClient
) -> None:
    chunk = '{"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]}'
    server.script(Events([f"data: {chunk}\n\n"]))

    _, result = await stream(client)

    assert result.content == "a"


# Failures


async def test_a_disconnect_in_the_middle(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(BrokenOff(Answer("Hello, Ada.")))
    items = client.create_stream(HELLO)

    assert [await anext(items), await anext(items)] == ["Hell", "o, A"]
    with pytest.raises(ModelConnectionError):
        await anext(items)


async def test_what_was_said_is_not_said_again(server: OpenAIServer, make: MakeClient) -> None:
    client = make(max_retries=5, retries=ModelRetries(sleep=no_pause))
    server.script(BrokenOff(Answer("Hello, Ada.")), Answer("not asked for"))

    with pytest.raises(ModelConnectionError):
        await stream(client)

    assert len(server.requests) == 1


async def test_a_stream_that_does_not_begin_is_tried_again(server: OpenAIServer, make: MakeClient) -> None:
    client = make(max_retries=5, retries=ModelRetries(sleep=no_pause))
    server.script(rate_limited(), overloaded(), BrokenOff(Answer("a"), after=0), Answer("b"))

    pieces, _ = await stream(client)

    assert pieces == ["b"]
    assert len(server.requests) == 4


async def test_a_stream_that_ends_too_early(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(Chunks([{"delta": {"content": "Hello"}}]), Events([]))

    with pytest.raises(ModelConnectionError, match="before the answer was complete"):
        await stream(client)
    with pytest.raises(ModelConnectionError, match="before the answer was complete"):
        await stream(client)


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ('data: {"a"\n\n', BadResponseError),
        ('data: {"choices": 5}\n\n', BadResponseError),
        ("data: 5\n\n", BadResponseError),
        ('data: {"choices": [{"delta": {"content": ["x"]}}]}\n\n', BadResponseError),
        ('data: {"error": {"message": "busy", "code": "server_error"}}\n\n', ModelOverloadedError),
        ('data: {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}\n\n', RateLimitError),
        ('data: {"error": {"message": "odd"}}\n\n', ModelOverloadedError),
    ],
)
async def test_events_that_are_no_chunk(
    server: OpenAIServer, client: OpenAIChatCompletionClient, event: str, kind: type[ModelError]
) -> None:
    server.script(Events([event]))

    with pytest.raises(kind) as failed:
        await stream(client)

    assert type(failed.value) is kind


@pytest.mark.parametrize("kind", ["text/html", "application/json"])
async def test_an_answer_that_is_no_stream(
    server: OpenAIServer, client: OpenAIChatCompletionClient, kind: str
) -> None:
    server.script(Raw("{}", content_type=kind))

    with pytest.raises(BadResponseError, match=f"{kind}.*no stream"):
        await stream(client)


async def test_a_stream_that_stops_to_flow(server: OpenAIServer, make: MakeClient) -> None:
    server.default = Slow(Answer("Hello, Ada."), events=3)
    limits = growing_limits()

    async def is_given_up() -> bool:
        with pytest.raises(ModelTimeoutError):
            await stream(make(timeout=next(limits)))
        return server.hung_up.is_set()

    await eventually(is_given_up, within=30)


async def test_cancelling_ends_a_stream(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(Slow(Answer("Hello, Ada."), events=3), Answer("after"))
    token = CancellationToken()
    items = client.create_stream(HELLO, cancellation_token=token)
    assert await anext(items) == "Hell"
    assert await anext(items) == "o, A"
    waiting = asyncio.ensure_future(anext(items))
    await asyncio.sleep(0)

    token.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    await eventually(server.hung_up.is_set)
    assert (await client.create(HELLO)).content == "after"


async def test_a_reader_that_stops_hangs_up(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(Slow(Answer("Hello, Ada."), events=3))

    async with aclosing(client.create_stream(HELLO)) as items:
        async for _ in items:
            break

    await eventually(server.hung_up.is_set)
