from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from callboard.broker import AgentId
from callboard.core.context import MessageHandlerContext
from callboard.errors import SettingValueError
from callboard.memory.llm_messages import LLMMessage
from callboard.models import (
    Budget,
    CreateResult,
    LocalStore,
    MeteredChatCompletionClient,
    ModelSettings,
    Price,
    ReplayChatCompletionClient,
    Spent,
    Streamed,
    UsageLedger,
    usage_run,
)
from callboard.models.errors import BadRequestError, BudgetExceededError, ModelConnectionError
from callboard.models.replay import Answer

from .asking import HELLO, result, stream_of

# HELLO has 3 tokens; an answer may have 7.
SETTINGS = ModelSettings(
    prices={"gpt": Price(1_000_000.0, 1_000_000.0)}, assumed_completion_tokens=7
)  # 1 USD a token


class Limited(ReplayChatCompletionClient):
    """Its answers have at most four tokens."""

    @property
    def max_completion_tokens(self) -> int | None:
        return 4


def metered(
    answers: Sequence[Answer], *budgets: Budget, ledger: UsageLedger | None = None, model: str = "gpt"
) -> MeteredChatCompletionClient:
    inner = ReplayChatCompletionClient(answers, model=model)
    inner.set_cached_bool_value(False)
    return MeteredChatCompletionClient(inner, ledger or UsageLedger(settings=SETTINGS), budgets=budgets)


async def test_usage_is_added_up_per_client_agent_and_run() -> None:
    client = metered(["one", "two words", "three"])
    await client.create(HELLO)
    with MessageHandlerContext.populate_context(AgentId("writer", "ada")), usage_run("42"):
        await client.create(HELLO)
        await stream_of(client)
    assert await client.ledger.spent() == Spent(3, 9, 4, 13.0)
    assert await client.ledger.spent("client:gpt") == Spent(3, 9, 4, 13.0)
    for scope in ("agent:writer/ada", "run:42"):
        assert await client.ledger.spent(scope) == Spent(2, 6, 3, 9.0)


async def test_without_a_price_tokens_count_and_the_rest_is_told() -> None:
    client = metered(["one"], model="unheard of")
    await client.create(HELLO)
    assert await client.ledger.spent() == Spent(1, 3, 1, 0.0, unpriced=1)


async def test_cached_answers_cost_nothing() -> None:
    client = metered([result("a", cached=True), result("b", cached=True)])
    await client.create(HELLO)
    await stream_of(client)
    assert await client.ledger.spent() == Spent(requests=2)


async def test_a_budget_stops_before_it_is_exceeded() -> None:
    client = metered(["one two three"] * 5, Budget(tokens=22))
    await client.create(HELLO)  # 6, and at most 10
    await client.create(HELLO)  # 12
    await client.create(HELLO)  # 18
    with pytest.raises(BudgetExceededError) as raised:
        await client.create(HELLO)
    error = raised.value
    assert (error.unit, error.limit, error.spent, error.needed) == ("tokens", 22, 18, 10)
    assert error.permanent
    assert (await client.ledger.spent()).tokens == 18
    assert await client.ledger.holds() == 0


async def test_a_budget_in_money() -> None:
    client = metered(["one"] * 5, Budget(usd=13.0))
    await client.create(HELLO)
    with pytest.raises(BudgetExceededError, match="of 13 for total 4 are spent"):
        await client.create(HELLO)


async def test_a_budget_in_money_needs_a_price() -> None:
    with pytest.raises(BadRequestError, match="add it to the prices"):
        await metered(["one"], Budget(usd=1.0), model="unheard of").create(HELLO)


async def test_the_longest_answer_is_limited_by_request_and_client() -> None:
    for extra, needed in (({}, 7), ({"max_tokens": 2}, 5), ({"max_completion_tokens": 3}, 6)):
        ledger = UsageLedger(settings=SETTINGS)
        client = MeteredChatCompletionClient(Limited(["a"]), ledger, budgets=[Budget(tokens=1)])
        with pytest.raises(BudgetExceededError) as raised:
            await client.create(HELLO, extra_create_args=extra)
        assert raised.value.needed == needed


async def test_every_agent_has_its_own_budget_and_one_by_name_a_smaller_one() -> None:
    client = metered(["one"] * 9, Budget("agent", tokens=14), Budget("agent:writer/bob", tokens=5))
    for key in ("ada", "eve"):
        with MessageHandlerContext.populate_context(AgentId("writer", key)):
            await client.create(HELLO)
            await client.create(HELLO)
            with pytest.raises(BudgetExceededError):
                await client.create(HELLO)
    with (
        MessageHandlerContext.populate_context(AgentId("writer", "bob")),
        pytest.raises(BudgetExceededError) as raised,
    ):
        await client.create(HELLO)
    assert raised.value.limit == 5
    await client.create(HELLO)  # outside agents nothing limits it


async def test_requests_at_once_stay_within_the_budget_together() -> None:
    """Also those of several clients, as several processes have them, with one store."""
    store = LocalStore()
    go_on = asyncio.Event()

    async def slowly(messages: Sequence[LLMMessage]) -> str:
        await go_on.wait()
        return "one two three four five six seven"

    clients = [
        metered([slowly] * 10, Budget(tokens=35), ledger=UsageLedger(store, SETTINGS)) for _ in range(2)
    ]
    tasks = [asyncio.create_task(client.create(HELLO)) for client in clients * 5]
    asyncio.get_running_loop().call_soon(go_on.set)
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(isinstance(one, CreateResult) for one in done) == 3
    assert sum(isinstance(one, BudgetExceededError) for one in done) == 7
    assert (await clients[0].ledger.spent()).tokens == 30


async def test_nothing_stays_set_aside_after_a_failure() -> None:
    client = metered([ModelConnectionError("gpt", "gone"), "one"], Budget(tokens=10))
    with pytest.raises(ModelConnectionError):
        await client.create(HELLO)
    assert await client.ledger.spent() == Spent()
    await client.create(HELLO)


async def test_a_stream_that_breaks_is_counted_by_its_pieces() -> None:
    client = metered([Streamed(["a ", "b ", ModelConnectionError("gpt", "gone")])], Budget(tokens=10))
    with pytest.raises(ModelConnectionError):
        await stream_of(client)
    assert await client.ledger.spent() == Spent(1, 3, 2, 5.0)
    assert await client.ledger.holds() == 0


async def test_a_stream_that_is_left_is_counted_too() -> None:
    client = metered(["a b c d"])
    items = client.create_stream(HELLO)
    assert await anext(items) == "a "
    await items.aclose()
    assert (await client.ledger.spent()).completion_tokens == 1


@pytest.mark.parametrize("scope", ["runs", "", "total:a", "agent:", "anything:a"])
def test_an_unknown_scope_is_refused(scope: str) -> None:
    with pytest.raises(SettingValueError, match="scope="):
        Budget(scope, tokens=1)


@pytest.mark.parametrize(
    ("usd", "tokens"), [(None, None), (0.0, None), (-1.0, 5), (1.0, 0), (float("nan"), None)]
)
def test_a_budget_has_a_limit(usd: float | None, tokens: int | None) -> None:
    with pytest.raises(SettingValueError):
        Budget(usd=usd, tokens=tokens)


async def test_a_name_of_its_own() -> None:
    client = MeteredChatCompletionClient(ReplayChatCompletionClient(["a"]), name="cheap")
    await client.create(HELLO)
    assert (await client.ledger.spent("client:cheap")).requests == 1
