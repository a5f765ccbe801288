"""Teams on the bus in which something else than a turn fails: who waits hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from callboard import App
from callboard.broker import AgentId
from callboard.broker.buried import Buried
from callboard.messages import BaseAgentEvent, BaseChatMessage
from callboard.models.replay import ReplayChatCompletionClient
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import RoundRobinGroupChat, SelectorGroupChat, TeamRunError
from tests.contract.test_teams import Gated
from tests.helpers.chat import Echo, texts
from tests.helpers.runtimes import Runtimes

PATIENCE = 20.0  # seconds, after which a test has failed that waits for ever


@pytest.fixture
async def runtime(runtimes: Runtimes) -> RedisAgentRuntime:
    return await runtimes.started()


async def test_a_dead_letter_of_another_turn_fails_nothing(runtime: RedisAgentRuntime) -> None:
    """Such as that of a turn of a run that was cancelled, which comes late."""
    team = RoundRobinGroupChat([Gated("a"), Echo("b")], max_turns=2, runtime=runtime, name="team")
    running = asyncio.ensure_future(team.run(task="go"))
    await asyncio.wait_for(Gated.began["a"].wait(), PATIENCE)
    late = Buried("another", "team.a/default", "callboard.team.Speak", "failed", "RuntimeError: late")
    await runtime.tell(late, AgentId("team", "default"))
    assert (await team.on(runtime).status()).waiting == ["a"]
    Gated.gates["a"].set()
    assert texts(await asyncio.wait_for(running, PATIENCE)) == ["go", "a1:go", "b1:go,a1"]


async def test_a_team_whose_answer_a_larger_team_can_not_take_fails_its_turn(runtimes: Runtimes) -> None:
    async def choose(messages: Sequence[BaseAgentEvent | BaseChatMessage]) -> str | None:
        if len(messages) > 1:
            await asyncio.Event().wait()
        return "inner"

    inner = RoundRobinGroupChat([Echo("x")], max_turns=1, name="inner")
    team = SelectorGroupChat(
        [inner, Echo("b")],
        model_client=ReplayChatCompletionClient([]),
        selector_func=choose,
        max_turns=3,
        name="team",
    )
    app = App("nested")
    app.team(team, max_runtime=0.2)
    runtime = runtimes.of(app)
    runtime.start()
    with pytest.raises(TeamRunError, match="ran longer than max_runtime"):
        await asyncio.wait_for(team.on(runtime).run(task="go"), PATIENCE)
    assert (await team.on(runtime).status()).state == "idle"
