"""Forks of conversations on the bus: everything up to a turn, in one commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import pytest

from callboard.agents import AssistantAgent
from callboard.broker import AgentId
from callboard.broker.redis.operations.deadletters import replay
from callboard.memory.llm_messages import LLMMessage
from callboard.models import ReplayChatCompletionClient
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import Choice, Floor, RoundRobinGroupChat, RunCancelledError, TeamForkError
from callboard.teams.group_chat import host
from callboard.teams.loop import RoundRobinSelection
from callboard.teams.protocol import Become, Born, ConversationPart, Fork
from tests.helpers.chat import Echo, texts
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Runtimes, letters
from tests.helpers.spending import paid, spender


def count(messages: Sequence[LLMMessage]) -> str:
    """What the model was shown, as a number."""
    return f"saw {len(messages)}"


def counter(name: str) -> AssistantAgent:
    return AssistantAgent(name, ReplayChatCompletionClient(default=count), system_message=None)


@pytest.fixture
async def runtime(runtimes: Runtimes) -> RedisAgentRuntime:
    made = runtimes.new()
    made.start()
    return made


async def sea_of(runtime: RedisAgentRuntime, **options: Any) -> Any:
    inner = RoundRobinGroupChat([counter("x"), counter("y")], name="inner", max_turns=1)
    team = RoundRobinGroupChat([counter("a"), inner], name="poets", runtime=runtime, **options)
    await host(team, runtime, team.name)
    return team.on(runtime, "sea")


async def test_a_fork_goes_on_as_the_conversation_did_from_that_turn(runtime: RedisAgentRuntime) -> None:
    sea = await sea_of(runtime, max_turns=3)
    first = await sea.run(task="go", run_id="r1")
    second = await sea.run(task="more", run_id="r2")
    marks = await sea.turns()
    assert [(mark.by, mark.run_id) for mark in marks] == [
        (("a",), "r1"),
        (("inner",), "r1"),
        (("a",), "r1"),
        (("inner",), "r2"),
        (("a",), "r2"),
        (("inner",), "r2"),
    ]
    after_first = await sea.fork("lake", run_id="r1")
    assert texts(await after_first.run(task="more")) == texts(second)
    # After two turns of three, a goes on with what it was about to hear.
    middle = await sea.fork("river", at=marks[1].turn)
    assert texts(await middle.run())[0] == texts(first)[3]
    again = await after_first.fork("pond", at=marks[1].turn)
    assert texts(await again.run()) == texts(await (await sea.fork("pool", at=marks[1].turn)).run())
    assert [mark.turn for mark in await sea.turns()] == [mark.turn for mark in marks], "it is untouched"


async def test_a_run_that_is_under_way_is_forked_after_its_last_turn(runtime: RedisAgentRuntime) -> None:
    hangs = spender("b", paid(seconds=60))
    team = RoundRobinGroupChat([counter("a"), hangs], name="slow", runtime=runtime, max_turns=2)
    await host(team, runtime, team.name)
    sea = team.on(runtime, "sea")
    running = asyncio.ensure_future(sea.run(task="go", run_id="r"))
    await eventually(sea.turns)
    lake = await sea.fork("lake")
    assert (await lake.status()).state == "idle"
    assert (await sea.status()).waiting == ["b"]
    assert [mark.by for mark in await lake.turns()] == [("a",)]
    await sea.abort()
    with pytest.raises(RunCancelledError):
        await running


async def test_a_fork_is_whole_or_not_there(
    runtime: RedisAgentRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    sea = await sea_of(runtime, max_turns=3)
    first = await sea.run(task="go")

    async def fails(step: str) -> None:
        if step == "fork born":
            raise ValueError(step)

    with monkeypatch.context() as broken:
        broken.setattr("callboard.teams.loop._watching", [fails])
        with pytest.raises(ValueError, match="fork born"):
            await sea.fork("lake")
    for agent_type in ("poets", "poets.a", "poets.inner", "poets.inner.x"):
        assert (await runtime.transport.load_state(agent_type, "lake")).version == 0
    lake = await sea.fork("lake")
    assert len(await lake.turns()) == 3 == len(first.messages) - 1


async def test_a_fork_whose_member_could_not_take_over_its_part_says_so(
    runtimes: Runtimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = await runtimes.started(settings={"max_attempts": 1}, ignore_unhandled_exceptions=True)
    sea = await sea_of(runtime, max_turns=3)
    await sea.run(task="go")

    def fails(*_: object) -> None:
        raise OSError("the disk is full")

    for name in ("lake", "pond"):
        with monkeypatch.context() as broken:
            broken.setattr("callboard.teams.fork.MemberMemory.model_validate", fails)
            lake = await sea.fork(name)
            await eventually(lambda: letters(runtime, "poets.inner.x"))
            await eventually(lambda: letters(runtime, "poets.a"))
        with pytest.raises(
            ValueError, match=r"'a' could not take over its part \(OSError: the disk is full\)"
        ):
            await lake.run(task="more")
        if name == "lake":
            await replay(runtime.transport, "poets.a")
            await replay(runtime.transport, "poets.inner.x")
            assert len((await lake.run(task="more")).messages) == 4
        else:
            await lake.reset()
            assert (await lake.run(task="go")).messages[1].to_text() == "saw 1", "it has begun anew"


@pytest.mark.parametrize("member", ["a", "inner"])
async def test_a_part_that_comes_too_late_takes_nothing_from_who_has_spoken(
    runtimes: Runtimes, member: str
) -> None:
    """Such as a dead letter that is replayed after the fork was begun anew."""
    runtime = await runtimes.started(settings={"max_attempts": 1}, ignore_unhandled_exceptions=True)
    sea = await sea_of(runtime, max_turns=2)
    await sea.run(task="go")
    before = await sea.save_state()
    await runtime.tell(Become(part=ConversationPart()), AgentId(f"poets.{member}", "sea"))
    (letter,) = await eventually(lambda: letters(runtime, f"poets.{member}"))
    assert "it has spoken already" in letter["error"]
    assert await sea.save_state() == before


async def test_the_same_order_again_changes_nothing(runtime: RedisAgentRuntime) -> None:
    sea = await sea_of(runtime, max_turns=1)
    await sea.run(task="go")
    cut = await runtime.send_message(Fork(fork_id="f", conversation="lake"), AgentId("poets", "sea"))
    assert cut.part is not None
    order, manager = Born(fork_id="f", part=cut.part), AgentId("poets", "lake")
    for _ in range(2):
        assert (await runtime.send_message(order, manager)).problem == ""
    assert len(await sea.beside("lake").turns()) == 1


async def test_where_and_to_what_it_can_not_be_forked(runtime: RedisAgentRuntime) -> None:
    sea = await sea_of(runtime, max_turns=1)
    with pytest.raises(TeamForkError, match="no turn of it has ended yet"):
        await sea.fork("lake")
    await sea.run(task="go")
    with pytest.raises(TeamForkError, match="after turn 7: its last turns are 1"):
        await sea.fork("lake", at=7)
    with pytest.raises(TeamForkError, match="its own name"):
        await sea.fork("sea")
    lake = await sea.fork("lake")
    with pytest.raises(TeamForkError, match="'lake' is there already"):
        await sea.fork("lake")
    await sea.reset()
    with pytest.raises(TeamForkError):
        await sea.fork("river")
    assert texts(await lake.run()), "it does not depend on the other one"


async def test_what_was_loaded_is_forked(runtime: RedisAgentRuntime) -> None:
    sea = await sea_of(runtime, max_turns=3)
    await sea.run(task="go")
    lake = sea.beside("lake")
    await lake.load_state(await sea.save_state())
    river = await lake.fork("river")
    assert texts(await river.run(task="more")) == texts(await sea.run(task="more"))


class Buffered(AssistantAgent):
    """Remembers its last messages only: those before are gone for good."""

    def keep_context_in(self, messages: Any) -> None:
        self._mine = messages
        super().keep_context_in(messages)

    async def on_messages_stream(self, messages: Any, cancellation_token: Any) -> AsyncGenerator[Any, None]:
        self._mine.trim(keep=1)
        async for item in super().on_messages_stream(messages, cancellation_token):
            yield item


async def test_what_a_member_does_not_know_any_more_is_not_taken_for_nothing(
    runtime: RedisAgentRuntime,
) -> None:
    trims = Buffered("a", ReplayChatCompletionClient(default=count), system_message=None)
    team = RoundRobinGroupChat([trims, counter("b")], name="forgetful", runtime=runtime, max_turns=4)
    await host(team, runtime, team.name)
    sea = team.on(runtime, "sea")
    await sea.run(task="go")
    first, _, third, last = [mark.turn for mark in await sea.turns()]
    with pytest.raises(TeamForkError, match=r"'forgetful\.a' does not know any more"):
        await sea.fork("lake", at=first)
    for turn in (third, last):
        await sea.fork(f"lake {turn}", at=turn)


class ForgetfulSelection(RoundRobinSelection):
    """Has `a` forget everything before its second turn."""

    async def select(self, floor: Floor) -> Choice:
        choice = await super().select(floor)
        is_second = len(floor.thread) == 3
        return Choice(choice.speakers, resets=["a"] if is_second else [])


class Forgetful(RoundRobinGroupChat):
    """A team with that rule."""

    def new_selection(self) -> RoundRobinSelection:
        return ForgetfulSelection()


async def test_a_member_that_was_told_to_forget_is_forked_from_then_on_only(
    runtime: RedisAgentRuntime,
) -> None:
    team = Forgetful([counter("a"), counter("b")], name="reset", runtime=runtime, max_turns=4)
    await host(team, runtime, team.name)
    sea = team.on(runtime, "sea")
    whole = texts(await sea.run(task="go"))
    turns = [mark.turn for mark in await sea.turns()]
    for turn in turns[:2]:
        with pytest.raises(TeamForkError, match=r"'reset\.a' does not know any more"):
            await sea.fork("lake", at=turn)
    lake = await sea.fork("lake", at=turns[2])
    assert texts(await lake.run())[0] == whole[4]


class Canned(Echo):
    """Saves the same after each turn."""

    async def save_state(self) -> Mapping[str, Any]:
        return {"language": "en"}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        assert state == {"language": "en"}


async def test_what_stays_the_same_is_kept_once_and_how_far_forks_reach_is_a_setting(
    runtimes: Runtimes,
) -> None:
    runtime = await runtimes.started(settings={"fork_turns": 6})
    team = RoundRobinGroupChat([Canned("a"), counter("b")], name="kept", runtime=runtime, max_turns=4)
    await host(team, runtime, team.name)
    sea = team.on(runtime, "sea")
    await sea.run(task="go")
    await sea.run(task="more")
    assert [mark.turn for mark in await sea.turns()] == [3, 4, 5, 6, 7, 8]
    stored = await runtime.transport.load_state("kept.a", "sea")
    assert len(stored.logs["marks"]) == 4
    assert len(stored.logs["kept"]) == 1
    await sea.fork("lake", at=3)
