"""Money is counted as servers charge it: prompts that they had in their cache, corrections, and what templates add."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.responses import Response

from callboard.memory.llm_messages import LLMMessage, UserMessage
from callboard.models import (
    Budget,
    MeteredChatCompletionClient,
    ModelSettings,
    Price,
    RequestUsage,
    UsageLedger,
)
from callboard.models.errors import BudgetExceededError
from callboard.models.stores import LocalStore
from tests.helpers.openai_server import Answer, Asked, OpenAIServer, Usage

from .conftest import MakeClient

HELLO: list[LLMMessage] = [UserMessage(content="How warm is it in Oslo?", source="ada")]
MILLION = 1_000_000


class Detailed(Usage):
    """What of it was cached or reasoning, as OpenAI says it; or as DeepSeek does."""

    def __init__(self, prompt: int, completion: int, **details: Any) -> None:
        super().__init__(prompt=prompt, completion=completion)
        object.__setattr__(self, "details", details)

    def as_json(self) -> dict[str, Any]:
        return {**super().as_json(), **getattr(self, "details", {})}


OPENAI = {
    "prompt_tokens_details": {"cached_tokens": 990_000},
    "completion_tokens_details": {"reasoning_tokens": 60},
}
DEEPSEEK = {"prompt_cache_hit_tokens": 990_000, "prompt_cache_miss_tokens": 10_000}


@pytest.mark.parametrize(("details", "reasoning"), [(OPENAI, 60), (DEEPSEEK, 0)])
@pytest.mark.parametrize("stream", [False, True])
async def test_what_was_in_the_servers_cache_costs_less(
    server: OpenAIServer, make: MakeClient, details: dict[str, Any], reasoning: int, stream: bool
) -> None:
    server.script(Answer("Warm.", usage=Detailed(MILLION, 100, **details)))
    settings = ModelSettings(prices={"m": Price(10.0, 40.0, cached=1.0)})
    client = MeteredChatCompletionClient(make(), UsageLedger(settings=settings))
    if stream:
        *_, result = [item async for item in client.create_stream(HELLO)]
    else:
        result = await client.create(HELLO)
    assert not isinstance(result, str)
    assert result.usage == RequestUsage(MILLION, 100, 990_000, reasoning)
    spent = await client.ledger.spent()
    assert spent.usd == pytest.approx(0.1 + 0.99 + 0.004)
    assert (spent.cached_tokens, spent.reasoning_tokens) == (990_000, reasoning)


@pytest.mark.parametrize(
    "details",
    [
        {"prompt_tokens_details": {"cached_tokens": 3 * MILLION}},
        {"prompt_tokens_details": {"cached_tokens": -5}},
        {"prompt_tokens_details": [1]},
        {"prompt_tokens_details": {"cached_tokens": "many"}, "completion_tokens_details": None},
    ],
)
async def test_details_that_can_not_be_make_nothing_cheaper_than_free(
    server: OpenAIServer, make: MakeClient, details: dict[str, Any]
) -> None:
    server.script(Answer("Warm.", usage=Detailed(100, 10, **details)))
    usage = (await make().create(HELLO)).usage
    assert 0 <= usage.cached_tokens <= usage.prompt_tokens == 100
    assert Price(10.0, 40.0, cached=1.0).of(usage) > 0


async def test_a_correction_is_a_request(server: OpenAIServer, make: MakeClient) -> None:
    server.script(Answer("no JSON"), Answer('{"warm": true}'))
    client = MeteredChatCompletionClient(make())
    result = await client.create(HELLO, json_output=True)
    assert result.requests == 2
    assert (await client.ledger.spent()).requests == 2


def templated(added: int, answer: int) -> Any:
    """A server that adds so many tokens to each prompt, and answers with as many as it may."""

    async def behave(asked: Asked, server: OpenAIServer) -> Response:
        counted = asked.body["metadata"]["counted"]
        return await Answer("word", usage=Usage(prompt=int(counted) + added, completion=answer))(
            asked, server
        )

    return behave


@pytest.mark.parametrize("added", [0, 20, 32])
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_servers_template_does_not_carry_a_budget_over(
    server: OpenAIServer, make: MakeClient, added: int, at_once: bool
) -> None:
    server.default = templated(added, 30)
    inner = make(max_tokens=30)
    client = MeteredChatCompletionClient(inner, budgets=[Budget(tokens=600)])
    extra = {"metadata": {"counted": str(inner.count_tokens(HELLO))}}

    async def ask() -> bool:
        try:
            await client.create(HELLO, extra_create_args=extra)
        except BudgetExceededError:
            return False
        return True

    asked = asyncio.gather(*(ask() for _ in range(12 if at_once else 1)))
    done = sum(await asked) + sum([await ask() for _ in range(0 if at_once else 11)])
    spent = (await client.ledger.spent()).tokens
    assert 0 < spent <= 600
    assert done >= 5


async def test_what_a_template_adds_is_learned_by_all_who_count_together(
    server: OpenAIServer, make: MakeClient
) -> None:
    server.default = templated(200, 30)
    store = LocalStore()
    inner = make(max_tokens=30)
    extra = {"metadata": {"counted": str(inner.count_tokens(HELLO))}}
    await MeteredChatCompletionClient(inner, UsageLedger(store)).create(HELLO, extra_create_args=extra)
    assert await UsageLedger(store).overhead("m") == 200
    limited = MeteredChatCompletionClient(inner, UsageLedger(store), budgets=[Budget("client", tokens=300)])
    with pytest.raises(BudgetExceededError) as refused:
        await limited.create(HELLO, extra_create_args=extra)
    assert refused.value.needed == inner.count_tokens(HELLO) + 200 + 30
