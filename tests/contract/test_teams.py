"""A team on the bus: what test_one_process.py says of a team in one process, and what only the bus has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, ClassVar

import pytest

from callboard import App
from callboard.agents import TaskResult
from callboard.conditions import MaxMessageTermination, TextMentionTermination
from callboard.core.cancellation import CancellationToken
from callboard.messages import ModelClientStreamingChunkEvent
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.runtime.steps import running_context
from callboard.teams import (
    Choice,
    Floor,
    RoundRobinGroupChat,
    RunCancelledError,
    SoloAgent,
    SpeakerSelection,
    TeamBusyError,
    TeamClient,
    TeamNotRunError,
    TeamRunError,
    TeamStateError,
)
from callboard.teams.group_chat import host
from callboard.teams.loop import RoundRobinSelection
from tests.helpers.chat import Echo, Streamer, texts
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Runtimes


@pytest.fixture
async def runtime(runtimes: Runtimes) -> RedisAgentRuntime:
    made = runtimes.new()
    made.start()
    return made


def a_team(runtime: RedisAgentRuntime, *names: str, **options: Any) -> RoundRobinGroupChat:
    return RoundRobinGroupChat([Echo(name) for name in names or "abc"], runtime=runtime, **options)


class Gated(Echo):
    """Speaks when its gate is opened; all of one name have one gate, in whatever conversation they are."""

    began: ClassVar[dict[str, asyncio.Event]] = {}
    gates: ClassVar[dict[str, asyncio.Event]] = {}

    def __init__(self, name: str) -> None:
        super().__init__(name)
        Gated.began[name], Gated.gates[name] = asyncio.Event(), asyncio.Event()

    async def on_messages_stream(
        self, messages: Sequence[Any], cancellation_token: CancellationToken
    ) -> AsyncGenerator[Any, None]:
        Gated.began[self.name].set()
        await Gated.gates[self.name].wait()
        yield await self.on_messages(messages, cancellation_token)


async def test_members_speak_in_turn_and_hear_what_was_said_since_they_last_spoke(
    runtime: RedisAgentRuntime,
) -> None:
    team = a_team(runtime, max_turns=4)
    result = await team.run(task="go")
    assert texts(result) == ["go", "a1:go", "b1:go,a1", "c1:go,a1,b1", "a2:b1,c1"]
    assert result.stop_reason == "Maximum number of turns 4 reached."
    assert texts(await team.run(task="more", output_task_messages=False))[:2] == [
        "b2:c1,a2,more",
        "c2:a2,more,b2",
    ]


async def test_a_condition_ends_the_run_and_is_reset_for_the_next(runtime: RedisAgentRuntime) -> None:
    condition = MaxMessageTermination(3) | TextMentionTermination("never")
    team = a_team(runtime, termination_condition=condition)
    assert texts(await team.run(task="go")) == ["go", "a1:go", "b1:go,a1"]
    assert len((await team.run()).messages) == 3
    assert not condition.terminated


async def test_pieces_of_a_text_are_shown_in_their_order_and_not_kept(runtime: RedisAgentRuntime) -> None:
    team = RoundRobinGroupChat([Streamer("a")], max_turns=1, runtime=runtime)
    shown = [item async for item in team.run_stream(task="go")]
    assert [item.to_text() for item in shown if isinstance(item, ModelClientStreamingChunkEvent)] == [
        "a1",
        "go",
    ]
    assert isinstance(shown[-1], TaskResult)
    assert texts(shown[-1]) == ["go", "a1:go"]


async def test_what_happens_on_the_way_is_kept_and_heard_by_nobody(runtime: RedisAgentRuntime) -> None:
    team = RoundRobinGroupChat([Echo("a", thinks=True), Echo("b")], max_turns=2, runtime=runtime)
    assert texts(await team.run(task="go")) == ["go", "hm", "a1:go", "b1:go,a1"]


async def test_a_team_is_a_member_of_a_team(runtime: RedisAgentRuntime) -> None:
    inner = RoundRobinGroupChat([Streamer("x"), Echo("y", thinks=True)], max_turns=2, name="inner")
    team = RoundRobinGroupChat([inner, Echo("b")], max_turns=3, runtime=runtime)
    result = await team.run(task="go")
    assert texts(result) == ["go", "x1:go", "hm", "y1:go,x1", "b1:go,x1,y1", "x2:y1,b1", "hm", "y2:b1,x2"]


async def test_an_agent_alone(runtime: RedisAgentRuntime) -> None:
    solo = SoloAgent(Echo("a"))
    solo_on_bus = RoundRobinGroupChat(solo.participants, name="solo", max_turns=1, runtime=runtime)
    assert texts(await solo_on_bus.run(task="go")) == ["go", "a1:go"]


async def test_conversations_do_not_mix(runtime: RedisAgentRuntime) -> None:
    team = a_team(runtime, name="team", max_turns=3)
    await team.run(task="go")
    conversations = [team.on(runtime, f"c{number}") for number in range(5)]
    results = await asyncio.gather(*(c.run(task=f"task{i}") for i, c in enumerate(conversations)))
    for number, result in enumerate(results):
        assert texts(result) == [
            f"task{number}",
            f"a1:task{number}",
            f"b1:task{number},a1",
            f"c1:task{number},a1,b1",
        ]


async def test_a_run_can_be_read_elsewhere_and_after_its_end(
    runtime: RedisAgentRuntime, runtimes: Runtimes
) -> None:
    team = a_team(runtime, name="team", max_turns=2)
    await team.run(task="go")
    first = await team.on(runtime).run(task="more", run_id="my-run")
    elsewhere = TeamClient(runtimes.new(), "team")
    again = [item async for item in elsewhere.follow("my-run")]
    assert isinstance(again[-1], TaskResult)
    assert [m.id for m in again[-1].messages] == [m.id for m in first.messages]


async def test_a_task_that_is_sent_again_is_not_carried_out_again(runtime: RedisAgentRuntime) -> None:
    team = a_team(runtime, name="team", max_turns=1)
    await team.run(task="go")
    client = team.on(runtime)
    first, second = [texts(await client.run(task="once", run_id="same")) for _ in range(2)]
    assert first == second
    assert texts(await client.run(task="next"))[0] == "next"


async def test_a_member_that_fails_for_good_fails_the_run_and_says_where(runtime: RedisAgentRuntime) -> None:
    team = RoundRobinGroupChat([Echo("a"), Echo("b", fails_at=1)], max_turns=3, runtime=runtime)
    with pytest.raises(TeamRunError, match="b has nothing to say") as caught:
        await team.run(task="go")
    assert (caught.value.where, caught.value.error_type) == ("b", "RuntimeError")
    with pytest.raises(TeamRunError, match="b has nothing to say"):
        await team.run()


async def test_a_second_task_is_refused_waits_or_interrupts(runtime: RedisAgentRuntime) -> None:
    team = RoundRobinGroupChat([Gated("a")], max_turns=1, runtime=runtime, name="team")
    running = asyncio.ensure_future(team.run(task="first"))
    await asyncio.wait_for(Gated.began["a"].wait(), 20)
    client = team.on(runtime)
    with pytest.raises(TeamBusyError, match="already running"):
        await client.run(task="refused")
    waiting = asyncio.ensure_future(client.run(task="second", if_busy="enqueue"))
    await eventually(lambda: is_queued(client))
    interrupting = asyncio.ensure_future(client.run(task="third", if_busy="interrupt"))
    with pytest.raises(RunCancelledError):
        await running
    Gated.gates["a"].set()
    assert texts(await interrupting)[0] == "third"
    assert texts(await waiting)[0] == "second"


async def is_queued(client: TeamClient) -> bool:
    return (await client.status()).queued == 1


async def test_a_token_cancels_the_run(runtime: RedisAgentRuntime) -> None:
    team = RoundRobinGroupChat([Gated("a"), Echo("b")], max_turns=2, runtime=runtime, name="team")
    token = CancellationToken()
    running = asyncio.ensure_future(team.run(task="go", cancellation_token=token))
    await asyncio.wait_for(Gated.began["a"].wait(), 20)
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await team.on(runtime).status()).state == "idle"
    Gated.gates["a"].set()
    assert texts(await team.run(task="again"))[0] == "again"


async def test_a_task_that_is_given_up_before_it_was_taken_is_never_carried_out(runtimes: Runtimes) -> None:
    """No process runs the team yet: when one does, it finds nothing to do, and no model is paid."""
    app = App("early")
    team = app.team(RoundRobinGroupChat([Echo("a")], name="team", max_turns=1))
    asking = runtimes.of(app, types=())
    await asking.open()
    client, token = team.on(asking), CancellationToken()
    given_up = asyncio.ensure_future(client.run(task="never", cancellation_token=token))
    await eventually(lambda: waits_in_inbox(asking, "team"))
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    runtimes.of(app).start()
    assert texts(await client.run(task="next")) == ["next", "a1:next"]


async def waits_in_inbox(runtime: RedisAgentRuntime, agent_type: str) -> bool:
    transport = runtime.transport
    return bool(await transport.admin.command("XLEN", transport.keys.of(f"inbox:{agent_type}")))


async def test_paused_nobody_begins_to_speak(runtime: RedisAgentRuntime) -> None:
    team = RoundRobinGroupChat([Gated("a"), Echo("b")], max_turns=2, runtime=runtime, name="team")
    client = team.on(runtime)
    running = asyncio.ensure_future(team.run(task="go"))
    await asyncio.wait_for(Gated.began["a"].wait(), 20)
    assert await client.pause()
    assert not await client.pause()
    Gated.gates["a"].set()
    await eventually(lambda: has_paused(client))
    assert (await client.status()).state == "paused"
    assert await client.resume()
    assert texts(await running) == ["go", "a1:go", "b1:go,a1"]
    with pytest.raises(TeamNotRunError):
        await client.pause()


async def has_paused(client: TeamClient) -> bool:
    return (await client.status()).waiting == ["b"]


async def test_stopped_it_ends_after_the_turn(runtime: RedisAgentRuntime) -> None:
    team = RoundRobinGroupChat([Gated("a"), Echo("b")], runtime=runtime, name="team", max_turns=9)
    running = asyncio.ensure_future(team.run(task="go"))
    await asyncio.wait_for(Gated.began["a"].wait(), 20)
    await team.on(runtime).stop()
    Gated.gates["a"].set()
    result = await running
    assert texts(result) == ["go", "a1:go"]
    assert result.stop_reason == "External termination requested"


async def test_reset_everything_is_as_in_the_beginning(runtime: RedisAgentRuntime) -> None:
    team = a_team(runtime, max_turns=2)
    first = texts(await team.run(task="go"))
    await team.reset()
    assert texts(await team.run(task="go")) == first


async def test_saved_in_the_middle_and_loaded_into_another_conversation_it_says_the_same(
    runtime: RedisAgentRuntime,
) -> None:
    def make(conversation: str) -> RoundRobinGroupChat:
        return a_team(runtime, name="team", conversation=conversation, max_turns=2)

    whole, first, second = make("whole"), make("first"), make("second")
    expected = texts(await whole.run(task="go")) + texts(await whole.run())
    said = texts(await first.run(task="go"))
    await second.load_state(await first.save_state())
    assert said + texts(await second.run()) == expected
    here = RoundRobinGroupChat([Echo(name) for name in "abc"], name="team", max_turns=2)
    await here.load_state(await first.save_state())
    assert said + texts(await here.run()) == expected


async def test_a_state_that_does_not_fit_is_refused(runtime: RedisAgentRuntime) -> None:
    team = a_team(runtime)
    with pytest.raises(TeamStateError, match="not what a team's save_state returns"):
        await team.load_state({})


async def test_a_conversation_goes_on_in_a_process_that_has_been_in_it_before(runtimes: Runtimes) -> None:
    """What that process still has in memory is older than what was committed elsewhere meanwhile."""
    first, second = runtimes.new(), runtimes.new()
    said = []
    for runtime in (first, second, first):
        runtime.start()
        team = a_team(runtime, "a", "b", "c", name="team", max_turns=2)
        said += texts(await team.run())
        await runtime.stop()
    assert said == ["a1:", "b1:a1", "c1:a1,b1", "a2:b1,c1", "b2:c1,a2", "c2:a2,b2"]
    # "a" has spoken in both processes, and its second turn was elsewhere.
    first.start()
    assert texts(await a_team(first, "a", "b", "c", name="team", max_turns=2).run()) == [
        "a3:b2,c2",
        "b3:c2,a3",
    ]


class Unreachable(RoundRobinSelection):
    """A strategy that needs something which can't be reached at its first call."""

    calls = 0

    async def select(self, floor: Floor) -> Choice:
        Unreachable.calls += 1
        if Unreachable.calls == 1:
            raise ConnectionError("nobody there")
        return await super().select(floor)


class UnreachableGroupChat(RoundRobinGroupChat):
    def new_selection(self) -> SpeakerSelection:
        return Unreachable()


async def test_an_outage_in_the_middle_of_a_choice_is_waited_for(runtime: RedisAgentRuntime) -> None:
    Unreachable.calls = -1  # the second choice, when an answer was heard
    team = UnreachableGroupChat([Echo("a")], max_turns=2, runtime=runtime)
    assert texts(await team.run(task="go")) == ["go", "a1:go", "a2:"]


class Recording(Gated):
    """Does something once before it waits at its gate, and counts how often it was cancelled."""

    done: ClassVar[list[str]] = []
    cancelled: ClassVar[list[str]] = []

    async def on_messages_stream(
        self, messages: Sequence[Any], cancellation_token: CancellationToken
    ) -> AsyncGenerator[Any, None]:
        ctx = running_context()
        assert ctx is not None
        await ctx.once("effect", self._effect)
        try:
            async for item in super().on_messages_stream(messages, cancellation_token):
                yield item
        except asyncio.CancelledError:
            self.cancelled.append(self.name)
            raise

    async def _effect(self) -> str:
        self.done.append(self.name)
        return "done"


@pytest.fixture
def recording() -> Recording:
    Recording.done.clear()
    Recording.cancelled.clear()
    return Recording("a")


async def test_paused_now_a_turn_is_interrupted_and_goes_on_from_what_it_recorded(
    runtimes: Runtimes, recording: Recording
) -> None:
    """Also in another process, after a restart of everything."""
    first, second = runtimes.new(), runtimes.new()
    for runtime in (first, second):
        await host(RoundRobinGroupChat([recording, Echo("b")], max_turns=2), runtime, "team")
    first.start()
    client = TeamClient(runtimes.new(), "team")
    reading = asyncio.ensure_future(client.run(task="go"))
    await asyncio.wait_for(Gated.began["a"].wait(), 20)
    assert await client.pause(now=True)
    await eventually(lambda: Recording.cancelled == ["a"])
    await first.stop()
    Gated.gates["a"].set()
    second.start()
    assert await client.resume()
    assert texts(await reading) == ["go", "a1:go", "b1:go,a1"]
    assert Recording.done == ["a"]


async def test_a_cancelled_run_cancels_who_is_speaking_and_a_paused_one_leaves_nobody_paused(
    runtimes: Runtimes, recording: Recording
) -> None:
    runtime = runtimes.new()
    await host(RoundRobinGroupChat([recording, Echo("b")], max_turns=2), runtime, "team")
    runtime.start()
    client = TeamClient(runtimes.new(), "team")
    for pauses in (False, True):
        Gated.began["a"].clear()
        Recording.cancelled.clear()
        running = asyncio.ensure_future(client.run(task="go"))
        await asyncio.wait_for(Gated.began["a"].wait(), 20)
        if pauses:
            assert await client.pause(now=True)
        assert await client.abort()
        with pytest.raises(RunCancelledError):
            await running
        await eventually(lambda: Recording.cancelled == ["a"])

    async def nothing_is_paused() -> bool:
        return not await runtime.control.paused()

    await eventually(nothing_is_paused)
    Gated.gates["a"].set()
    # Nothing of what was cancelled was said; what its speaker had heard for it is heard now.
    assert texts(await client.run(task="more")) == ["more", "b2:more", "a1:go,go,b1,more,b2"]
