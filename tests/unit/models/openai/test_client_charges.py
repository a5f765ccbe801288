"""What the server charged is counted, whatever became of the answer: in the client's usage, and in a ledger around it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel

from callboard.memory.llm_messages import LLMMessage, UserMessage
from callboard.models import Budget, CreateResult, MeteredChatCompletionClient, RequestUsage
from callboard.models.errors import (
    BadResponseError,
    BudgetExceededError,
    ModelConnectionError,
    ModelError,
    ModelTimeoutError,
    charged,
)
from tests.helpers.eventually import eventually
from tests.helpers.openai_server import (
    Answer,
    BrokenOff,
    Cut,
    Events,
    OpenAIServer,
    Raw,
    Slow,
    Usage,
    overloaded,
)

from .conftest import MakeClient, growing_limits

HELLO: list[LLMMessage] = [UserMessage(content="Hello", source="ada")]
SHORT: dict[str, Any] = {"extra_create_args": {"max_tokens": 8}}


class Weather(BaseModel):
    city: str


async def test_answers_that_can_not_be_used_are_paid_from_the_budget(
    server: OpenAIServer, make: MakeClient
) -> None:
    server.default = Answer('{"ci', finish="length", usage=Usage(prompt=10, completion=8))
    inner = make(max_corrections=0)
    client = MeteredChatCompletionClient(inner, budgets=[Budget(tokens=100)])

    async def ask_until_refused() -> None:
        while True:
            with pytest.raises(BadResponseError, match="cut off"):
                await client.create(HELLO, json_output=Weather, **SHORT)

    with pytest.raises(BudgetExceededError):
        await ask_until_refused()

    spent = await client.ledger.spent()
    assert spent.tokens == 18 * spent.requests == 18 * len(server.requests) <= 100
    assert spent.requests >= 3
    assert inner.total_usage() == RequestUsage(10 * spent.requests, 8 * spent.requests)
    assert await client.ledger.holds() == 0


async def test_an_error_says_what_was_paid_for(server: OpenAIServer, make: MakeClient) -> None:
    server.default = Answer("no json")
    with pytest.raises(BadResponseError) as failed:
        await make(max_corrections=2).create(HELLO, json_output=True)
    assert failed.value.usage == RequestUsage(21, 9), "of all three answers"


async def test_a_request_that_was_not_answered_costs_nothing(server: OpenAIServer, make: MakeClient) -> None:
    server.default = overloaded(503)
    client = MeteredChatCompletionClient(make())
    with pytest.raises(ModelError):
        await client.create(HELLO)
    assert (await client.ledger.spent()).requests == 0
    assert client.total_usage() == RequestUsage(0, 0)


async def test_a_request_that_is_cancelled_has_been_read(server: OpenAIServer, make: MakeClient) -> None:
    server.script(Slow())
    client = MeteredChatCompletionClient(make())
    asking = asyncio.ensure_future(client.create(HELLO))
    await eventually(lambda: server.requests)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await asking

    used = charged(cancelled.value)
    assert used == RequestUsage(client.count_tokens(HELLO), 0) == client.total_usage()
    assert (await client.ledger.spent()).prompt_tokens == used.prompt_tokens


async def test_so_has_one_that_took_too_long(server: OpenAIServer, make: MakeClient) -> None:
    server.default = Slow()
    limits = growing_limits()

    async def charge() -> int:
        client = MeteredChatCompletionClient(make(timeout=next(limits)))
        with pytest.raises(ModelTimeoutError):
            await client.create(HELLO)
        return (await client.ledger.spent()).prompt_tokens

    assert await eventually(charge, within=30) == make().count_tokens(HELLO)


@pytest.mark.parametrize("mode", ["native", "schema"])
async def test_a_stream_that_breaks_off_is_counted_as_far_as_it_came(
    server: OpenAIServer, make: MakeClient, mode: str
) -> None:
    server.script(BrokenOff(Answer("word " * 50), after=30))
    inner = make(tool_mode=mode)
    client = MeteredChatCompletionClient(inner)
    with pytest.raises(ModelConnectionError):
        async for _ in client.create_stream(HELLO, tools=[{"name": "add"}]):
            pass

    used = inner.total_usage()
    assert used.prompt_tokens > 0
    assert used.completion_tokens > 10
    spent = await client.ledger.spent()
    assert spent.tokens >= used.total_tokens


async def test_a_stream_that_is_left_is_counted_in_the_clients_usage_too(
    server: OpenAIServer, make: MakeClient
) -> None:
    server.script(Slow(Answer("word " * 50), events=20))
    client = make()
    items = client.create_stream(HELLO)
    await anext(items)
    await items.aclose()
    assert client.total_usage().prompt_tokens == client.count_tokens(HELLO)
    assert client.total_usage().completion_tokens > 0


async def test_an_answer_without_usage_is_counted_by_the_client(
    server: OpenAIServer, make: MakeClient
) -> None:
    server.default = Answer("four words of answer", usage=None)
    client = MeteredChatCompletionClient(make())
    result = await client.create(HELLO)
    *_, streamed = [item async for item in client.create_stream(HELLO)]

    assert isinstance(streamed, CreateResult)
    assert result.usage == streamed.usage == RequestUsage(0, 0), "nothing is made up for the caller"
    spent = await client.ledger.spent()
    assert spent.requests == 2
    assert spent.prompt_tokens == 2 * client.count_tokens(HELLO)
    assert spent.completion_tokens > 6


CHARGED = {"usage": {"prompt_tokens": 7, "completion_tokens": 3}}
MESSAGE = {"role": "assistant", "content": "Hello"}
WHOLE = {"choices": [{"message": MESSAGE, "finish_reason": "stop"}]}


@pytest.mark.parametrize(
    "body",
    [
        {"choices": []},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"content": {"text": "Hello"}}}]},
        {"error": {"message": "no", "code": "server_error"}},
    ],
)
async def test_what_stands_in_an_unreadable_answer_is_paid_for(
    server: OpenAIServer, make: MakeClient, body: dict[str, Any]
) -> None:
    server.default = Raw(json.dumps(body | CHARGED))
    client = MeteredChatCompletionClient(make(max_retries=0))
    with pytest.raises(ModelError) as failed:
        await client.create(HELLO)
    assert failed.value.usage == RequestUsage(7, 3)
    assert (await client.ledger.spent()).tokens == 10


@pytest.mark.parametrize("count", [-700, "many", [1], 1e308, 10**400, True, None])
async def test_a_wrong_count_costs_no_answer_and_spoils_no_sum(
    server: OpenAIServer, make: MakeClient, count: Any
) -> None:
    usage = {"usage": {"prompt_tokens": count, "completion_tokens": 3.0}}
    server.script(Raw(json.dumps(WHOLE | usage)), Raw(json.dumps(WHOLE | {"usage": count})))
    client = MeteredChatCompletionClient(make())
    result = await client.create(HELLO)
    assert (result.content, result.usage) == ("Hello", RequestUsage(0, 3))
    assert (await client.ledger.spent()).tokens == 3
    assert (await client.create(HELLO)).content == "Hello"


async def test_half_an_answer_has_been_paid_for(server: OpenAIServer, make: MakeClient) -> None:
    server.default = Cut()
    client = MeteredChatCompletionClient(make(max_retries=0))
    with pytest.raises(ModelConnectionError):
        await client.create(HELLO)
    assert (await client.ledger.spent()).prompt_tokens == client.count_tokens(HELLO)


async def test_what_never_reached_a_server_costs_nothing(make: MakeClient) -> None:
    client = MeteredChatCompletionClient(make(base_url="http://127.0.0.1:9/v1", max_retries=0))
    with pytest.raises(ModelConnectionError):
        await client.create(HELLO)
    assert (await client.ledger.spent()).tokens == 0


async def test_a_stream_that_is_left_before_its_first_piece_has_been_read(
    server: OpenAIServer, make: MakeClient
) -> None:
    # As servers do that accept a stream at once, and take their time for the prompt.
    server.default = Slow(Events([": wait\n\n", ": more\n\n"]), events=1)
    limits = growing_limits()

    async def charge() -> int:
        client = MeteredChatCompletionClient(make(timeout=next(limits), max_retries=0))
        with pytest.raises(ModelTimeoutError):
            async for _ in client.create_stream(HELLO):
                pass
        return (await client.ledger.spent()).prompt_tokens

    assert await eventually(charge, within=30) == make().count_tokens(HELLO)
