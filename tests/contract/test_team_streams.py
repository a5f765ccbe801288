"""What a reader sees while a strategy chooses: one text over both ways, in this process and on the bus."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.agents import TaskResult
from callboard.messages import ModelClientStreamingChunkEvent
from callboard.models import ReplayChatCompletionClient
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import SelectorGroupChat
from tests.helpers.chat import Echo
from tests.helpers.runtimes import Runtimes


@pytest.fixture(params=["in one process", "on the bus"])
async def runtime(request: pytest.FixtureRequest, runtimes: Runtimes) -> RedisAgentRuntime | None:
    if request.param == "in one process":
        return None
    made = runtimes.new()
    made.start()
    return made


def brief(said: Any) -> str:
    is_chunk = isinstance(said, ModelClientStreamingChunkEvent)
    return f"{'~' if is_chunk else type(said).__name__[:14]} {said.source}: {said.to_text()}"


def streaming_selector(answers: list[str], **options: Any) -> SelectorGroupChat:
    return SelectorGroupChat(
        [Echo("a"), Echo("b"), Echo("c")],
        ReplayChatCompletionClient(answers),
        max_turns=2,
        model_client_streaming=True,
        emit_team_events=True,
        **options,
    )


async def test_a_selector_that_streams_is_seen_thinking_before_it_chooses(
    runtime: RedisAgentRuntime | None,
) -> None:
    team = streaming_selector(["not sure", "a please", "now c"], runtime=runtime)
    seen = [item async for item in team.run_stream(task="go")]
    result = seen.pop()
    chooser = "SelectorGroupChatManager"
    expected = [
        "TextMessage user: go",
        f"~ {chooser}: not ",
        f"~ {chooser}: sure",
        f"SelectorEvent {chooser}: not sure",
        f"~ {chooser}: a ",
        f"~ {chooser}: please",
        f"SelectorEvent {chooser}: a please",
        f"SelectSpeakerE {chooser}: ['a']",
        "TextMessage a: a1:go",
        f"~ {chooser}: now ",
        f"~ {chooser}: c",
        f"SelectorEvent {chooser}: now c",
        f"SelectSpeakerE {chooser}: ['c']",
        "TextMessage c: c1:go,a1",
    ]
    assert list(map(brief, seen)) == expected
    assert isinstance(result, TaskResult)
    assert list(map(brief, result.messages)) == [one for one in expected if not one.startswith("~")]
    if runtime is not None:
        again = [item async for item in team.on(runtime).follow(await run_id_of(team, runtime))]
        assert list(map(brief, again[:-1])) == expected
        assert again[-1] == result


async def run_id_of(team: SelectorGroupChat, runtime: RedisAgentRuntime) -> str:
    return (await team.on(runtime).turns())[-1].run_id
