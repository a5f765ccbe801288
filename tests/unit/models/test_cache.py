from __future__ import annotations

import asyncio

import pytest

from callboard import CancellationToken
from callboard.models import (
    CachedChatCompletionClient,
    Delayed,
    FunctionCall,
    LocalStore,
    ReplayChatCompletionClient,
    RequestUsage,
    Streamed,
    UserMessage,
)
from callboard.models.errors import ModelConnectionError
from callboard.models.replay import Answer
from callboard.models.stores import Store

from .asking import HELLO, result, stream_of


def cached(*answers: Answer, store: Store | None = None, model: str = "replay") -> CachedChatCompletionClient:
    inner = ReplayChatCompletionClient(answers, model=model)
    inner.set_cached_bool_value(False)
    return CachedChatCompletionClient(inner, store)


async def test_the_same_question_is_asked_once() -> None:
    client = cached("first", "second")
    first, again = await client.create(HELLO), await client.create(list(HELLO))
    assert first == result("first", 3, 1)
    assert again == first.model_copy(update={"cached": True})
    other = await client.create([UserMessage(content="else", source="user")])
    assert other.content == "second"


async def test_arguments_are_a_part_of_the_question() -> None:
    client = cached("a", "b", "c")
    await client.create(HELLO)
    assert (await client.create(HELLO, json_output=True)).content == "b"
    assert (await client.create(HELLO, extra_create_args={"seed": 1})).content == "c"


async def test_two_models_do_not_answer_for_each_other() -> None:
    store = LocalStore()
    await cached("small", store=store, model="small").create(HELLO)
    assert (await cached("large", store=store, model="large").create(HELLO)).content == "large"
    assert (await cached("new", store=store, model="small").create(HELLO)).content == "small"


async def test_a_stream_comes_back_as_it_came() -> None:
    client = cached(Streamed(["a", "b c", "d"]))
    first = await stream_of(client)
    assert first == (["a", "b c", "d"], result("ab cd", 3, 2))
    assert await stream_of(client) == (first[0], first[1].model_copy(update={"cached": True}))
    assert (await client.create(HELLO)).content == "ab cd"


async def test_a_cached_whole_answer_streams_in_one_piece() -> None:
    client = cached("a b c")
    await client.create(HELLO)
    assert (await stream_of(client))[0] == ["a b c"]


async def test_calls_come_back() -> None:
    client = cached([FunctionCall("1", "{}", "f")])
    await client.create(HELLO)
    pieces, found = await stream_of(client)
    assert pieces == []
    assert found.content == [FunctionCall("1", "{}", "f")]


async def test_errors_and_broken_streams_are_not_kept() -> None:
    gone = ModelConnectionError("m", "gone")
    client = cached(gone, Streamed(["a", gone]), "b")
    with pytest.raises(ModelConnectionError):
        await client.create(HELLO)
    with pytest.raises(ModelConnectionError):
        await stream_of(client)
    assert not (await client.create(HELLO)).cached


async def test_a_stream_that_is_left_is_not_kept() -> None:
    client = cached("a b", "c")
    items = client.create_stream(HELLO)
    assert await anext(items) == "a "
    await items.aclose()
    assert (await client.create(HELLO)).content == "c"


async def test_actual_usage_leaves_cached_answers_out() -> None:
    client = cached("a b")
    await client.create(HELLO)
    await client.create(HELLO)
    assert client.actual_usage() == RequestUsage(3, 2)
    assert client.total_usage() == RequestUsage(6, 4)


async def test_an_unreadable_cached_answer_is_asked_again() -> None:
    class Broken(LocalStore):
        async def get(self, name: str) -> bytes | None:
            return b'{"version": 0}'

    client = cached("a", "b", store=Broken())
    assert [(await client.create(HELLO)).content for _ in "ab"] == ["a", "b"]


async def test_a_cached_answer_expires() -> None:
    now = 0.0
    inner = ReplayChatCompletionClient(["a", "b"])
    client = CachedChatCompletionClient(inner, LocalStore(clock=lambda: now), seconds=10)
    await client.create(HELLO)
    now = 10
    assert (await client.create(HELLO)).content == "b"


async def test_of_equal_requests_at_once_one_asks() -> None:
    client = cached(Delayed(0.01, "a"), "b")
    answers = await asyncio.gather(*(client.create(HELLO) for _ in range(3)))
    assert [answer.content for answer in answers] == ["a"] * 3
    assert [answer.cached for answer in answers] == [False, True, True]


async def test_when_the_first_fails_the_next_one_asks() -> None:
    client = cached(Delayed(0.01, ModelConnectionError("replay", "gone")), Delayed(0.01, "a"), "b")
    answers = await asyncio.gather(*(client.create(HELLO) for _ in range(3)), return_exceptions=True)
    assert isinstance(answers[0], ModelConnectionError)
    assert [getattr(answer, "content", None) for answer in answers[1:]] == ["a", "a"]


async def test_one_that_waits_can_be_cancelled() -> None:
    token = CancellationToken()
    client = cached(Delayed(60, "never"), "b")
    first = asyncio.ensure_future(client.create(HELLO))
    second = asyncio.ensure_future(client.create(HELLO, cancellation_token=token))
    third = asyncio.ensure_future(client.create(HELLO))
    await asyncio.sleep(0)
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    first.cancel()
    assert (await third).content == "b"
