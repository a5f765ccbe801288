"""A model that is away: how often it is asked, and what readers of the run see meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from callboard.agents import AssistantAgent, TaskResult
from callboard.memory.llm_messages import FunctionCall
from callboard.messages import AttemptEndedEvent, OutageEvent
from callboard.models import ReplayChatCompletionClient, RetryingChatCompletionClient
from callboard.models.errors import ModelConnectionError, ModelError, ModelOverloadedError, ModelTimeoutError
from callboard.models.info import ModelSettings
from callboard.models.retries import ModelRetries
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import RoundRobinGroupChat, SelectorGroupChat, TeamRunError
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
    # Drafts of a turn are gone with its end: long enough for a reader to see them.
    made = runtimes.new(settings={"retry_base": 0.1, "retry_cap": 0.1})
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


async def test_readers_see_since_when_how_often_and_when_next(runtime: RedisAgentRuntime) -> None:
    away = ModelOverloadedError("m", "busy")
    team, _ = asked(*[away] * 6, "Hello.")
    await host(team, runtime, "desk")
    shown = [item async for item in team.on(runtime, "c").run_stream(task="Hi")]
    outages = [item for item in shown if isinstance(item, OutageEvent)]
    assert [one.asked for one in outages] == [2, 4, 6], "in all attempts"
    (since,) = {one.since for one in outages}
    assert since is not None
    assert all(one.next_at is not None and one.next_at > since for one in outages)
    assert f"has no answer since {since:%Y-%m-%d %H:%M:%S} UTC, asked 6 times, and" in outages[-1].content


async def test_what_was_answered_before_an_outage_does_not_count(runtime: RedisAgentRuntime) -> None:
    away = ModelOverloadedError("m", "busy")
    call = [FunctionCall(id="1", name="look", arguments="{}")]
    model = ReplayChatCompletionClient([away, away, call, away, away, "Hello."])
    client = RetryingChatCompletionClient(model, ModelRetries(ModelSettings(), sleep=nothing))
    agent = AssistantAgent("ann", client, tools=[look], reflect_on_tool_use=True)
    team = RoundRobinGroupChat([agent], name="desk", max_turns=1)
    await host(team, runtime, "desk")
    shown = [item async for item in team.on(runtime, "c").run_stream(task="Hi")]
    outages = [item for item in shown if isinstance(item, OutageEvent)]
    assert [one.asked for one in outages] == [2, 2]


async def look() -> str:
    """Look."""
    return "nothing"


async def test_a_model_that_takes_too_long_is_asked_six_times_at_most(runtime: RedisAgentRuntime) -> None:
    team, model = asked(default=lambda messages: ModelTimeoutError("m", "no answer in time"))
    await host(team, runtime, "desk")
    with pytest.raises(TeamRunError, match="no answer in time"):
        await team.on(runtime, "c").run(task="Hi")
    assert len(model.create_calls) == 6, "two in each of three attempts"


async def test_readers_see_that_a_model_takes_too_long(runtime: RedisAgentRuntime) -> None:
    late = ModelTimeoutError("m", "no answer in time")
    team, _ = asked(late, late, "Hello.")
    await host(team, runtime, "desk")
    shown = [item async for item in team.on(runtime, "c").run_stream(task="Hi")]
    (outage,) = [item for item in shown if isinstance(item, OutageEvent)]
    assert "asked 2 times" in outage.content
    assert "ModelUnansweredError: m: no answer in time. The server may have worked on it" in outage.content


def choosing(*answers: Any, default: Any = None) -> tuple[SelectorGroupChat, ReplayChatCompletionClient]:
    """A team whose model chooses the second speaker; the first is the only candidate."""
    model = ReplayChatCompletionClient(list(answers), default=default)
    client = RetryingChatCompletionClient(model, ModelRetries(ModelSettings(), sleep=nothing))
    members = [AssistantAgent(name, ReplayChatCompletionClient(["Hi."])) for name in ("ann", "bob", "cy")]

    def first(thread: Sequence[Any]) -> str | None:
        return "ann" if len(thread) == 1 else None

    return SelectorGroupChat(members, client, name="desk", selector_func=first, max_turns=2), model


@pytest.mark.parametrize("kind", [ModelOverloadedError, ModelTimeoutError])
async def test_who_chooses_the_speaker_waits_as_members_do(
    runtime: RedisAgentRuntime, kind: type[ModelError]
) -> None:
    team, model = choosing(*[kind("m", "away")] * 4, "bob")
    await host(team, runtime, "desk")
    shown = [item async for item in team.on(runtime, "c").run_stream(task="Hi")]
    outages = [item for item in shown if isinstance(item, OutageEvent)]
    assert [(one.source, one.asked) for one in outages] == [
        ("SelectorGroupChatManager", times) for times in (2, 4)
    ]
    result = shown[-1]
    assert isinstance(result, TaskResult)
    assert [one.source for one in result.messages] == ["user", "ann", "bob"]
    assert len(model.create_calls) == 5


async def test_a_choice_that_takes_too_long_each_time_fails_the_run_and_says_why(
    runtime: RedisAgentRuntime,
) -> None:
    team, model = choosing(default=lambda messages: ModelTimeoutError("m", "no answer in time"))
    await host(team, runtime, "desk")
    with pytest.raises(TeamRunError, match=r"no answer in time\. The server may have worked on it"):
        await team.on(runtime, "c").run(task="Hi")
    assert len(model.create_calls) == 6
