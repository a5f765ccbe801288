"""Budgets of runs in one process; tests/contract/test_team_budgets.py has those on the bus."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from callboard.errors import SettingValueError
from callboard.models import (
    MeteredChatCompletionClient,
    ModelSettings,
    Price,
    ReplayChatCompletionClient,
    UsageLedger,
)
from callboard.teams import (
    ConcurrentGroupChat,
    RoundRobinGroupChat,
    RunBudget,
    RunBudgetExceededError,
    SelectorGroupChat,
    TeamDeclarationError,
    TeamRunError,
)
from tests.helpers.chat import Echo
from tests.helpers.spending import paid, spender


class Direct(Echo):
    """Keeps a model to itself."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.model = paid()


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"tokens": 0},
        {"usd": -1.0},
        {"turns": 0},
        {"seconds": 0.0},
        {"tokens": 1.5},
        {"turns": True},
        {"usd": "4"},
    ],
)
def test_a_budget_limits_something(given: dict[str, Any]) -> None:
    with pytest.raises(SettingValueError):
        RunBudget(**given)


async def test_no_request_exceeds_the_tokens() -> None:
    team = RoundRobinGroupChat([spender("a"), spender("b")], budget=RunBudget(tokens=20))
    with pytest.raises(RunBudgetExceededError) as ended:
        await team.run(task="go")
    error = ended.value
    # 1 + 2, then 3 + 2, then 5 + 2 (a's own answer, the task and b's); the next would be 7 + 2
    assert (error.unit, error.limit, error.spent, error.where) == ("tokens", 20, 15, "b")
    assert "20 tokens, and 15 are spent" in str(error)
    with pytest.raises(RunBudgetExceededError, match="5 tokens"):
        await team.run(task="go", budget=RunBudget(tokens=5))


async def test_turns_and_seconds_end_a_run() -> None:
    team = RoundRobinGroupChat([spender("a"), spender("b", paid(seconds=60))], name="poets")
    with pytest.raises(RunBudgetExceededError, match="1 turns") as ended:
        await team.run(task="go", budget=RunBudget(turns=1))
    assert ended.value.unit == "turns"
    with pytest.raises(RunBudgetExceededError) as ended:
        await team.run(task="go", budget=RunBudget(seconds=0.05))
    assert (ended.value.unit, ended.value.where) == ("seconds", "poets")


async def test_who_chooses_speakers_draws_as_well() -> None:
    team = SelectorGroupChat([spender("a"), spender("b")], paid("a"), selector_prompt="who")
    with pytest.raises(RunBudgetExceededError, match="2 tokens"):
        await team.run(task="go", budget=RunBudget(tokens=2))


async def test_eight_at_once_in_a_nested_team_stay_within_two_budgets() -> None:
    eight = [spender(f"m{number}", paid(seconds=0.01)) for number in range(8)]
    for outer, inner, most in ((1_000, 12, "12"), (12, 1_000, "12"), (24, 24, "")):
        nested = ConcurrentGroupChat(eight, name="inner", budget=RunBudget(tokens=inner))
        team = RoundRobinGroupChat([nested], max_turns=1, budget=RunBudget(tokens=outer))
        if most:
            with pytest.raises(RunBudgetExceededError, match=f"{most} tokens, and 12 are spent"):
                await team.run(task="go")
        else:
            assert len((await team.run(task="go")).messages) == 9
        for agent in eight:
            await agent.model_context.clear()


async def test_money_needs_prices() -> None:
    budget = RunBudget(usd=0.01)
    with pytest.raises(TeamRunError, match=r"BadRequestError.*price is not known"):
        await RoundRobinGroupChat([spender("a")], max_turns=1).run(task="go", budget=budget)
    prices = ModelSettings(prices={"gpt": Price(1_000.0, 1_000.0)})  # 0.001 USD a token
    priced = MeteredChatCompletionClient(paid(), UsageLedger(settings=prices))
    team = RoundRobinGroupChat([spender("a", priced)])
    with pytest.raises(RunBudgetExceededError) as ended:
        await team.run(task="go", budget=budget)
    assert (ended.value.unit, ended.value.limit) == ("USD", 0.01)


async def test_what_nothing_can_limit_is_refused() -> None:
    with pytest.raises(TeamDeclarationError, match="'a' asks its model 'gpt' directly"):
        RoundRobinGroupChat([Direct("a")], budget=RunBudget(tokens=5))
    inner = RoundRobinGroupChat([Direct("a")], max_turns=1)
    team = RoundRobinGroupChat([inner], max_turns=1)
    with pytest.raises(TeamDeclarationError, match="directly"):
        await team.run(task="go", budget=RunBudget(usd=5.0))
    assert (await team.run(task="go", budget=RunBudget(turns=5))).stop_reason


async def test_a_cancelled_run_sets_nothing_aside() -> None:
    team = RoundRobinGroupChat([spender("a", paid(seconds=60))], budget=RunBudget(tokens=5))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(team.run(task="go"), 0.05)
    team.participants[0]  # the next run has a budget of its own


def test_a_budget_is_dumped() -> None:
    team = RoundRobinGroupChat(
        [spender("a", ReplayChatCompletionClient(["one"]))], budget=RunBudget(tokens=5, seconds=1.5)
    )
    loaded = RoundRobinGroupChat.load_component(team.dump_component())
    assert loaded.plan.budget == RunBudget(tokens=5, seconds=1.5)
