"""What a run of a team on the bus uses: counted on the server by agent and model, whatever the clients were made of."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.agents import AssistantAgent
from callboard.broker.redis.store import RedisStore
from callboard.models import (
    ChatCompletionClient,
    MeteredChatCompletionClient,
    ModelSettings,
    Price,
    ReplayChatCompletionClient,
    RuntimeStore,
    Spent,
    UsageLedger,
)
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import RoundRobinGroupChat, SelectorGroupChat
from tests.helpers.runtimes import Runtimes

PRICES = ModelSettings(prices={"gpt": Price(1_000_000.0, 1_000_000.0)})  # 1 USD a token


@pytest.fixture
async def runtime(runtimes: Runtimes) -> RedisAgentRuntime:
    made = runtimes.new()
    made.start()
    return made


def paid(answer: str, model: str = "gpt") -> ReplayChatCompletionClient:
    client = ReplayChatCompletionClient(default=answer, model=model)
    client.set_cached_bool_value(False)
    return client


def member(name: str, client: ChatCompletionClient, **options: Any) -> AssistantAgent:
    return AssistantAgent(name, client, system_message=None, **options)


async def test_it_is_known_by_agent_and_model_with_nested_teams_and_who_chooses(
    runtime: RedisAgentRuntime,
) -> None:
    inner = RoundRobinGroupChat([member("x", paid("one two", "big"))], name="inner", max_turns=1)
    team = SelectorGroupChat(
        [member("a", paid("one")), inner],
        paid("inner", "small"),
        selector_prompt="who",
        allow_repeated_speaker=True,
        name="poets",
        max_turns=1,
        runtime=runtime,
    )
    await team.run(task="go")  # makes the agent types known
    conversation = team.on(runtime, "sea")
    await conversation.run(task="go", run_id="r1")
    usage = await conversation.usage("r1")
    assert usage.by_agent == {
        "poets": Spent(1, 1, 1, unpriced=1),
        "poets.inner.x": Spent(1, 1, 2, unpriced=1),
    }
    assert usage.by_model == {"big": Spent(1, 1, 2, unpriced=1), "small": Spent(1, 1, 1, unpriced=1)}
    assert usage.total == Spent(2, 2, 3, unpriced=2)
    assert (await team.on(runtime, "other").usage("r1")).parts == ()


async def test_a_client_that_is_metered_already_counts_once(runtime: RedisAgentRuntime) -> None:
    on_server = MeteredChatCompletionClient(paid("one two"), UsageLedger(RuntimeStore(), PRICES))
    here = MeteredChatCompletionClient(paid("one two"), UsageLedger(settings=PRICES))
    team = RoundRobinGroupChat(
        [member("a", on_server), member("b", here), member("c", paid("one", "free"))],
        name="poets",
        max_turns=3,
        runtime=runtime,
    )
    await team.run(task="go")
    conversation = team.on(runtime, "sea")
    await conversation.run(task="go", run_id="r1")
    usage = await conversation.usage("r1")
    assert usage.by_agent == {
        "poets.a": Spent(1, 1, 2, 3.0),
        "poets.b": Spent(1, 3, 2, 5.0),
        "poets.c": Spent(1, 5, 1, unpriced=1),
    }
    assert usage.total == Spent(3, 9, 5, 8.0, unpriced=1)
    server = UsageLedger(RedisStore(runtime.transport.admin))
    assert (await server.spent("client:gpt")).requests == 2, "of both runs, by the client that counts there"
    assert await server.holds("run:r1") == 0
