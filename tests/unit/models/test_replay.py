from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from callboard import CancellationToken
from callboard.memory.llm_messages import LLMMessage
from callboard.models import (
    AssistantMessage,
    CreateResult,
    Delayed,
    FunctionCall,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    Image,
    ModelInfo,
    ReplayChatCompletionClient,
    RequestUsage,
    Streamed,
    UserMessage,
)
from callboard.models.errors import BadRequestError, RateLimitError
from callboard.models.replay import Answer

from .asking import HELLO, result, stream_of

CALL = FunctionCall(id="1", arguments='{"a": 1}', name="f")


def last_words(messages: Sequence[LLMMessage]) -> str:
    return f"You said {messages[-1].content}"


async def later(messages: Sequence[LLMMessage]) -> Answer:
    return [CALL]


async def test_answers_come_in_their_order() -> None:
    client = ReplayChatCompletionClient(["one", "two words", result("three", 1, 2)])
    assert await client.create(HELLO) == CreateResult(
        finish_reason="stop", content="one", usage=RequestUsage(3, 1), cached=True
    )
    assert (await client.create(HELLO)).content == "two words"
    assert await client.create(HELLO) == result("three", 1, 2)
    assert client.actual_usage() == client.total_usage() == RequestUsage(7, 5)


async def test_functions_calls_errors_and_delays() -> None:
    client = ReplayChatCompletionClient(
        [last_words, later, [CALL], RateLimitError("m", "slow"), Delayed(0.0, Delayed(0.0, "at last"))]
    )
    assert (await client.create(HELLO)).content == "You said hello"
    for _ in range(2):
        answer = await client.create(HELLO)
        assert answer.content == [CALL]
        assert answer.finish_reason == "function_calls"
    with pytest.raises(RateLimitError):
        await client.create(HELLO)
    assert (await client.create(HELLO)).content == "at last"


async def test_a_stream_is_the_words_of_the_text() -> None:
    text = "  Hello,\nhow are\t you? \n"
    pieces, answer = await stream_of(ReplayChatCompletionClient([text]))
    assert len(pieces) == 4
    assert "".join(pieces) == answer.content == text
    assert (await stream_of(ReplayChatCompletionClient([""])))[0] == []


async def test_streams_of_other_answers() -> None:
    client = ReplayChatCompletionClient([[CALL], result("a b"), last_words])
    assert (await stream_of(client))[0] == []
    assert await stream_of(client) == (["a ", "b"], result("a b"))
    assert (await stream_of(client))[1].content == "You said hello"


async def test_pieces_of_ones_own_choice() -> None:
    client = ReplayChatCompletionClient([Streamed(["a", "b c"], thought="hm")] * 2)
    pieces, answer = await stream_of(client)
    assert pieces == ["a", "b c"]
    assert (answer.content, answer.thought) == ("ab c", "hm")
    assert (await client.create(HELLO)).content == "ab c"


async def test_a_stream_may_break() -> None:
    client = ReplayChatCompletionClient([Streamed(["a", RateLimitError("m", "slow"), "b"])] * 2)
    items = client.create_stream(HELLO)
    assert await anext(items) == "a"
    with pytest.raises(RateLimitError):
        await anext(items)
    with pytest.raises(RateLimitError):
        await client.create(HELLO)


async def test_after_the_last_answer_comes_an_error_or_the_default() -> None:
    client = ReplayChatCompletionClient(["one"])
    await client.create(HELLO)
    with pytest.raises(ValueError, match="No more mock responses available"):
        await client.create(HELLO)
    with pytest.raises(BadRequestError):
        await stream_of(client)
    client.set_default(last_words)
    for _ in range(3):
        assert (await client.create(HELLO)).content == "You said hello"
    assert (await ReplayChatCompletionClient(default="always").create(HELLO)).content == "always"


async def test_reset_begins_again() -> None:
    client = ReplayChatCompletionClient(["one"])
    await client.create(HELLO)
    client.reset()
    assert client.create_calls == []
    assert client.total_usage() == RequestUsage(0, 0)
    assert (await client.create(HELLO)).content == "one"


async def test_state_is_the_position_in_the_script() -> None:
    client = ReplayChatCompletionClient(["one", "two"])
    await client.create(HELLO)
    other = ReplayChatCompletionClient(["one", "two"])
    await other.load_state(await client.save_state())
    assert (await other.create(HELLO)).content == "two"


async def test_cached_of_the_results_can_be_set() -> None:
    client = ReplayChatCompletionClient(["one"])
    client.set_cached_bool_value(False)
    assert not (await client.create(HELLO)).cached


async def test_calls_are_written_down() -> None:
    client = ReplayChatCompletionClient(["one"])
    await client.create(HELLO, json_output=True)
    (call,) = client.create_calls
    assert call["messages"] == HELLO
    assert call["json_output"] is True


async def test_a_token_ends_a_delay() -> None:
    token = CancellationToken()
    client = ReplayChatCompletionClient([Delayed(3_600.0, "one")])
    task = asyncio.create_task(client.create(HELLO, cancellation_token=token))
    await asyncio.sleep(0)
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_tokens_are_words() -> None:
    client = ReplayChatCompletionClient([])
    messages: list[LLMMessage] = [
        *HELLO,
        UserMessage(content=["two words", Image.from_url("https://example.org/a")], source="user"),
        AssistantMessage(content=[CALL], source="model"),
        AssistantMessage(content="I see", source="model"),
        FunctionExecutionResultMessage(
            content=[FunctionExecutionResult(content="it is done", name="f", call_id="1")]
        ),
    ]
    assert client.count_tokens(messages) == 3 + 3 + 3 + 2 + 3
    assert client.remaining_tokens(messages) == 10_000 - 14


def test_it_can_be_said_to_be_less_able() -> None:
    info = ModelInfo(
        vision=False, function_calling=False, json_output=False, family="unknown", structured_output=False
    )
    client = ReplayChatCompletionClient([], info)
    assert client.model_info == info
    assert client.model == "replay"
    with pytest.raises(ValueError, match="Missing required field"):
        ReplayChatCompletionClient([], {"vision": True})  # type: ignore[arg-type]
