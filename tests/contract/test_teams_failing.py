"""Teams on the bus in which something else than a turn fails: who waits hears of it."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence

import pytest

from callboard import App
from callboard.broker import AgentId
from callboard.broker.retry import Buried
from callboard.core.cancellation import CancellationToken
from callboard.messages import BaseAgentEvent, BaseChatMessage
from callboard.models.replay import ReplayChatCompletionClient
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import (
    RoundRobinGroupChat,
    RunUnknownError,
    SelectorGroupChat,
    TeamMemberError,
    TeamRunError,
    TeamStateError,
)
from callboard.teams.group_chat import host
from callboard.teams.protocol import SaveConversation
from tests.contract.test_teams import Gated
from tests.helpers.chat import Echo, texts
from tests.helpers.eventually import eventually
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


@pytest.mark.parametrize("asked", [1, 2])
async def test_a_choice_that_never_ends_fails_the_run(runtimes: Runtimes, asked: int) -> None:
    async def choose(messages: Sequence[BaseAgentEvent | BaseChatMessage]) -> str | None:
        if len(messages) >= asked:
            await asyncio.Event().wait()
        return "a"

    runtime = await runtimes.started(settings={"choice_timeout": 0.1})
    model, members = ReplayChatCompletionClient([]), [Echo("a"), Echo("b")]
    team = SelectorGroupChat(
        members, model_client=model, selector_func=choose, max_turns=3, name="team", runtime=runtime
    )
    with pytest.raises(TeamRunError, match=r"within choice_timeout=0\.1 s"):
        await asyncio.wait_for(team.run(task="go"), PATIENCE)
    assert (await team.on(runtime).status()).state == "idle"


@pytest.mark.parametrize("is_nested", [False, True])
async def test_the_status_of_a_run_names_whom_nobody_runs(
    runtimes: Runtimes, is_nested: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("callboard.teams.outcome.PATIENCE", 0.05)
    members = [Echo("a"), Echo("b")]
    inner = RoundRobinGroupChat(members, max_turns=2, name="inner")
    app, name = App("missing"), "inner.b" if is_nested else "b"
    team = app.team(RoundRobinGroupChat([inner] if is_nested else members, max_turns=2, name="team"))
    types = [declared.type for declared in app if declared.type != f"team.{name}"]
    some = runtimes.of(app, types=types)
    some.start()
    client = team.on(some)
    running = asyncio.ensure_future(client.run(task="go"))

    async def is_missing() -> bool:
        return (await client.status()).missing == [name]

    await eventually(is_missing)
    await eventually(lambda: f"no process runs team.{name}. Start one." in caplog.text)
    runtimes.of(app, types=[f"team.{name}"]).start()
    await asyncio.wait_for(running, PATIENCE)
    assert not (await client.status()).missing


@pytest.mark.parametrize("is_followed", [False, True])
async def test_a_run_that_the_server_lost_is_not_waited_for(
    runtime: RedisAgentRuntime, is_followed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after FLUSHALL, or when a replica takes over that never had it: the finding was that its caller waited for ever."""
    monkeypatch.setattr("callboard.teams.outcome.PATIENCE", 0.05)
    monkeypatch.setattr("callboard.broker.redis.client.connection.BLOCK", 0.05)
    team = RoundRobinGroupChat([Gated("a"), Echo("b")], max_turns=2, name="team")
    await host(team, runtime, "team")
    running = asyncio.ensure_future(team.on(runtime).run(task="go", run_id="lost" if is_followed else None))
    await asyncio.wait_for(Gated.began["a"].wait(), PATIENCE)
    await runtime.control.reset(AgentId("team", "default"))
    Gated.gates["a"].set()
    with pytest.raises(RunUnknownError, match="a server that loses data loses runs"):
        await asyncio.wait_for(running, PATIENCE)


class Stubborn(Echo):
    """Can't forget, as long as it is told so."""

    refuses = True

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        await super().on_reset(cancellation_token)
        if Stubborn.refuses:
            raise OSError("the disk is full")


@pytest.mark.parametrize("is_nested", [False, True])
async def test_who_resets_a_team_hears_that_a_member_can_not_forget(
    runtime: RedisAgentRuntime, is_nested: bool
) -> None:
    Stubborn.refuses = True
    members = [Echo("a"), Stubborn("b")]
    inner = RoundRobinGroupChat(members, name="inner", max_turns=2)
    team = RoundRobinGroupChat([inner] if is_nested else members, max_turns=2, runtime=runtime, name="team")
    first = texts(await team.run(task="go"))
    with pytest.raises(TeamMemberError, match=r"could not forget the conversation: .*the disk is full"):
        await team.reset()
    Stubborn.refuses = False
    await team.reset()
    assert texts(await team.run(task="go")) == first


async def test_a_manager_of_an_older_version_asks_members_for_their_states(
    runtime: RedisAgentRuntime,
) -> None:
    team = RoundRobinGroupChat([Echo("a"), Echo("b")], max_turns=2, runtime=runtime, name="team")
    await team.run(task="go")
    saved = await runtime.send_message(SaveConversation(), AgentId("team.a", "default"))
    whole = await team.save_state()
    assert saved.state == whole["agent_states"]["a"]["agent_state"]


async def test_a_state_that_one_member_refuses_is_loaded_by_nobody(runtime: RedisAgentRuntime) -> None:
    team = RoundRobinGroupChat([Echo("a"), Echo("b")], max_turns=2, runtime=runtime, name="team")
    await team.run(task="go")
    saved = copy.deepcopy(dict(await team.save_state()))
    expected = texts(await team.run())
    for name in "ab":
        saved["agent_states"][name]["agent_state"] = {"spoken": 7} if name == "a" else {}
    with pytest.raises(TeamStateError, match="the member 'b' refuses its part: KeyError"):
        await team.load_state(saved)
    assert [text.partition(":")[0] for text in expected] == ["a2", "b2"]
    assert [text.partition(":")[0] for text in texts(await team.run())] == ["a3", "b3"]


async def test_a_state_is_saved_while_a_member_takes_its_time(runtime: RedisAgentRuntime) -> None:
    """Nobody waits for the turn; what it will say is not in there, and who loads it has it said again."""
    slow = Gated("b")
    inner = RoundRobinGroupChat([slow], max_turns=1, name="inner")
    team = RoundRobinGroupChat([Echo("a"), inner], max_turns=2, runtime=runtime, name="team")
    running = asyncio.ensure_future(team.run(task="go"))
    await asyncio.wait_for(Gated.began["b"].wait(), PATIENCE)
    saved = await asyncio.wait_for(team.save_state(), PATIENCE / 4)
    Gated.gates["b"].set()
    assert texts(await running) == ["go", "a1:go", "b1:go,a1"]
    copied = RoundRobinGroupChat(
        [Echo("a"), inner], max_turns=2, runtime=runtime, name="team", conversation="copy"
    )
    await copied.load_state(saved)
    assert texts(await copied.run())[0] == "b1:go,a1"
