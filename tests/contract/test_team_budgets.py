"""Budgets of runs on the bus: no request exceeds them, whoever makes it, and the run ends with a typed error."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest

from callboard.agents import AssistantAgent, TaskResult
from callboard.broker.redis.store import RedisStore
from callboard.messages import OutageEvent
from callboard.models import Budget, MeteredChatCompletionClient, RuntimeStore, UsageLedger
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import (
    ConcurrentGroupChat,
    RoundRobinGroupChat,
    RunBudget,
    RunBudgetExceededError,
    TeamClient,
    TeamDeclarationError,
    TeamRunError,
)
from callboard.teams.group_chat import host
from tests.helpers.chat import Echo, texts
from tests.helpers.runtimes import Runtimes
from tests.helpers.spending import paid, spender


@pytest.fixture
async def runtime(runtimes: Runtimes) -> RedisAgentRuntime:
    made = runtimes.new()
    made.start()
    return made


async def conversation(team: RoundRobinGroupChat, runtime: RedisAgentRuntime) -> TeamClient:
    """A conversation of a team whose agents are hosted here."""
    await host(team, runtime, team.name)
    return team.on(runtime, "sea")


async def test_no_request_exceeds_the_tokens_and_what_was_said_is_kept(runtime: RedisAgentRuntime) -> None:
    team = RoundRobinGroupChat([spender("a"), spender("b")], name="poets", runtime=runtime)
    sea = await conversation(team, runtime)
    run = sea.run_stream(task="go", run_id="r", budget=RunBudget(tokens=20))
    said = [await anext(run) for _ in range(4)]
    with pytest.raises(RunBudgetExceededError) as ended:
        await anext(run)
    assert (ended.value.unit, ended.value.limit, ended.value.spent, ended.value.where) == (
        "tokens",
        20,
        15,
        "b",
    )
    assert [item.to_text() for item in said if not isinstance(item, TaskResult)] == [
        "go",
        "one two",
        "one two",
        "one two",
    ]
    assert (await sea.usage("r")).total.tokens == 15
    with pytest.raises(RunBudgetExceededError, match="1 turns"):  # the conversation goes on
        await sea.run(task="more", run_id="s", budget=RunBudget(turns=1, tokens=100))
    # It begins with a: the task, "one two" six times but for b's, which it has heard; so b's refused turn left nothing.
    assert (await sea.usage("s")).by_agent.keys() == {"poets.a"}


async def test_turns_and_seconds_end_a_run_also_when_a_member_hangs(runtime: RedisAgentRuntime) -> None:
    members = [spender("a"), spender("b", paid(seconds=60))]
    team = RoundRobinGroupChat(members, name="poets", runtime=runtime, budget=RunBudget(turns=1))
    sea = await conversation(team, runtime)
    with pytest.raises(RunBudgetExceededError, match="1 turns"):
        await sea.run(task="go")
    with pytest.raises(RunBudgetExceededError) as ended:
        await sea.run(task="go", budget=RunBudget(seconds=0.3))
    assert (ended.value.unit, ended.value.limit) == ("seconds", 0.3)
    assert (await sea.status()).state == "idle"
    await asyncio.wait_for(sea.reset(), 10)  # b was cancelled, and so nothing waits for it


async def test_eight_at_once_in_a_nested_team_stay_within_two_budgets(runtime: RedisAgentRuntime) -> None:
    for number, (outer, inner) in enumerate(((1_000, 12), (12, 1_000))):
        eight = [spender(f"m{which}", paid(seconds=0.01)) for which in range(8)]
        nested = ConcurrentGroupChat(eight, name="inner", budget=RunBudget(tokens=inner))
        team = RoundRobinGroupChat([nested], name=f"team{number}", max_turns=1, runtime=runtime)
        sea = await conversation(team, runtime)
        with pytest.raises(RunBudgetExceededError) as ended:
            await sea.run(task="go", run_id="r", budget=RunBudget(tokens=outer))
        assert (ended.value.limit, ended.value.spent) == (12, 12)
        usage = await sea.usage("r")
        assert usage.total.tokens == 12, "as many as there is room for, and no more"
        assert len(usage.by_agent) == 4
    ledger = UsageLedger(RedisStore(runtime.transport.admin))
    assert (await ledger.spent("run:r")).tokens == 24


async def test_what_nothing_can_limit_is_refused(runtime: RedisAgentRuntime) -> None:
    class Direct(Echo):
        def __init__(self, name: str) -> None:
            super().__init__(name)
            self.model = paid()

    team = RoundRobinGroupChat([Direct("a")], name="poets", max_turns=1, runtime=runtime)
    sea = await conversation(team, runtime)
    with pytest.raises(TeamDeclarationError, match="'a' asks its model 'gpt' directly"):
        await sea.run(task="go", budget=RunBudget(tokens=9))
    assert texts(await sea.run(task="go", budget=RunBudget(turns=9))) == ["go", "a1:go"]


def daily(when_over: Literal["refuse", "wait"]) -> list[AssistantAgent]:
    """Two members of which each conversation may ask its models twice a day."""
    limit = Budget("key", requests=2, every="day", when_over=when_over)
    model = MeteredChatCompletionClient(paid(), UsageLedger(RuntimeStore()), budgets=[limit])
    return [spender("a", model), spender("b", model)]


async def test_a_conversation_that_has_used_its_day_ends_its_run_and_others_go_on(
    runtime: RedisAgentRuntime,
) -> None:
    team = RoundRobinGroupChat(daily("refuse"), name="poets", max_turns=2, runtime=runtime)
    sea = await conversation(team, runtime)
    await sea.run(task="go")
    with pytest.raises(TeamRunError) as ended:
        await sea.run(task="more")
    assert (ended.value.error_type, ended.value.where) == ("BudgetExceededError", "a")
    assert "of 2 for key:sea in 24 h 2 are spent or set aside" in str(ended.value)
    await team.on(runtime, "lake").run(task="go")


async def test_readers_see_that_a_run_waits_for_its_day(runtime: RedisAgentRuntime) -> None:
    team = RoundRobinGroupChat(daily("wait"), name="poets", max_turns=3, runtime=runtime)
    sea = await conversation(team, runtime)
    async for item in sea.run_stream(task="go"):
        if isinstance(item, OutageEvent):
            assert item.source == "a"
            assert "of 2 for key:sea in 24 h 2 are spent or set aside" in item.content
            break
