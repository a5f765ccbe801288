"""A model that is away: how often it is asked, and what readers of the run see meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.agents import AssistantAgent, TaskResult
from callboard.messages import AttemptEndedEvent, OutageEvent
from callboard.models import ReplayChatCompletionClient, RetryingChatCompletionClient
from callboard.models.errors import ModelConnectionError, ModelError, ModelOverloadedError, ModelTimeoutError
from callboard.models.info import ModelSettings
from callboard.models.retries import ModelRetries
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import RoundRobinGroupChat, TeamRunError
from callboard.teams.group_chat import host
from tests.helpers.runtimes import Runtimes


async def nothing(seconds: float) -> None:
    """No pause."""


def asked(*answers: Any, default: Any = None) -> tuple[RoundRobinGroupChat, ReplayChatCompletionClient]:
    """A team of one, whose client makes requests again, and the model."""
    model = ReplayChatCompletionClient(list(answers), default=default)
    client = RetryingChatCompletionClient(model, ModelRetries(ModelSettings(), sleep=nothing))
    return RoundRobinGroupChat([AssistantAgent("ann", client)], name="desk", max_turns=1), model


@pytest.fixture
async def runtime(runtimes: Runtimes) -> RedisAgentRuntime:
    made = runtimes.new()
    made.start()
    return made


@pytest.mark.parametrize("kind", [ModelConnectionError, ModelOverloadedError])
async def test_readers_see_that_a_member_has_to_wait(
    runtime: RedisAgentRuntime, kind: type[ModelError]
) -> None:
    away = kind("m", "the server is away")
    team, model = asked(away, away, away, "Hello.")
    await host(team, runtime, "desk")
    shown = [item async for item in team.on(runtime, "c").run_stream(task="Hi")]
    outages = [item for item in shown if isinstance(item, OutageEvent)]
    assert "the server is away" in outages[0].content
    assert isinstance(shown[shown.index(outages[-1]) + 1], AttemptEndedEvent)
    result = shown[-1]
    assert isinstance(result, TaskResult)
    assert result.messages[-1].to_text() == "Hello."
    assert not [one for one in result.messages if isinstance(one, OutageEvent)]
    assert len(model.create_calls) == 4, "two in each attempt: the bus makes the others"


async def test_a_model_that_takes_too_long_is_asked_six_times_at_most(runtime: RedisAgentRuntime) -> None:
    team, model = asked(default=lambda messages: ModelTimeoutError("m", "no answer in time"))
    await host(team, runtime, "desk")
    with pytest.raises(TeamRunError, match="no answer in time"):
        await team.on(runtime, "c").run(task="Hi")
    assert len(model.create_calls) == 6, "two in each of three attempts"
