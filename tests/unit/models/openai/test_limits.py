"""A limit of requests counts what comes over the wire: attempts, corrections and streams of the client inside."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import BaseModel

from callboard.models import (
    Budget,
    LocalStore,
    MeteredChatCompletionClient,
    ModelRetries,
    ModelSettings,
    UsageLedger,
    UserMessage,
)
from callboard.models.errors import BudgetExceededError, ModelError
from tests.helpers.openai_server import Answer, OpenAIServer, overloaded, rate_limited

from .conftest import MakeClient

HELLO = [UserMessage(content="Hello", source="ada")]
QUICK = ModelRetries(ModelSettings(max_attempts=4, retry_base=0.001))
LIMIT = 7


class Weather(BaseModel):
    degrees: int


@pytest.fixture
def limited(make: MakeClient) -> MeteredChatCompletionClient:
    budget = Budget("client", requests=LIMIT, every="day")
    client = make(retries=QUICK, max_retries=3, max_tokens=5)
    return MeteredChatCompletionClient(client, UsageLedger(LocalStore()), budgets=[budget])


async def test_requests_at_once_of_which_most_fail_come_no_more_often_than_they_may(
    limited: MeteredChatCompletionClient, server: OpenAIServer
) -> None:
    server.script(*(overloaded(), rate_limited(), Answer("Hello")) * 10)

    async def ask(number: int) -> None:
        if number % 2:
            await limited.create(HELLO)
        else:
            _ = [item async for item in limited.create_stream(HELLO)]

    ends = await asyncio.gather(*(ask(number) for number in range(12)), return_exceptions=True)
    assert len(server.requests) == LIMIT
    assert {type(end) for end in ends if isinstance(end, BudgetExceededError)} == {BudgetExceededError}
    assert all(end is None or isinstance(end, ModelError) for end in ends)


async def test_a_correction_is_a_request_and_one_that_was_not_needed_is_given_back(
    limited: MeteredChatCompletionClient, server: OpenAIServer
) -> None:
    server.script(Answer("not JSON"), Answer('{"degrees": 3}'), *[Answer('{"degrees": 4}')] * 5)
    for _ in range(5):
        await limited.create(HELLO, json_output=Weather)

    assert len(server.requests) == 6
    with pytest.raises(BudgetExceededError) as refused:
        await limited.create(HELLO, json_output=Weather)
    assert (refused.value.spent, refused.value.needed) == (6, 2), "it may need a correction"
    await limited.create(HELLO)
    assert len(server.requests) == LIMIT
