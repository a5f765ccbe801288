"""Teams on the bus under orders that come at bad moments: nobody waits for ever, and nothing is told twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TypeVar

import pytest

from callboard import App
from callboard.agents import Response, TaskResult
from callboard.broker import AgentId
from callboard.broker.errors import RequestTimeoutError
from callboard.core.cancellation import CancellationToken
from callboard.messages import BaseAgentEvent, BaseChatMessage, ModelClientStreamingChunkEvent, TextMessage
from callboard.models.replay import ReplayChatCompletionClient
from callboard.runtime.errors import MaxRuntimeError
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import (
    RoundRobinGroupChat,
    RunCancelledError,
    RunUnknownError,
    SelectorGroupChat,
    TeamBusyError,
    TeamClient,
    TeamRunError,
)
from callboard.teams.group_chat import host
from callboard.teams.protocol import stream_of
from tests.contract.test_teams import Gated, a_team, is_queued
from tests.helpers.chat import Echo, texts
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Runtimes

T = TypeVar("T")


@pytest.fixture
async def runtime(runtimes: Runtimes) -> RedisAgentRuntime:
    return await runtimes.started()


async def soon(waiting: Awaitable[T]) -> T:
    """What hangs fails its test."""
    return await asyncio.wait_for(waiting, 20)


async def speaking(team: RoundRobinGroupChat, task: str = "first") -> asyncio.Future[TaskResult]:
    """A run in which the first member, who is Gated, speaks and waits for its gate."""
    first = team.participants[0].name
    running: asyncio.Future[TaskResult] = asyncio.ensure_future(team.run(task=task))
    await soon(Gated.began[first].wait())
    return running


def is_waiting_for(client: TeamClient, *names: str) -> Callable[[], Awaitable[bool]]:
    async def is_waiting() -> bool:
        return (await client.status()).waiting == list(names)

    return is_waiting


async def test_a_token_cancels_the_run_that_it_was_given_to_and_no_other(runtime: RedisAgentRuntime) -> None:
    team = RoundRobinGroupChat([Gated("a")], max_turns=1, runtime=runtime, name="team")
    running = asyncio.ensure_future(team.run(task="first"))
    await soon(Gated.began["a"].wait())
    client, token = team.on(runtime), CancellationToken()
    waiting = asyncio.ensure_future(client.run(task="x", if_busy="enqueue", cancellation_token=token))
    await eventually(lambda: is_queued(client))
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(waiting)
    assert (await client.status()).queued == 0
    Gated.gates["a"].set()
    assert texts(await soon(running)) == ["first", "a1:first"]


async def test_a_run_that_was_refused_may_be_asked_for_again_with_its_id(runtime: RedisAgentRuntime) -> None:
    team = RoundRobinGroupChat([Gated("a")], max_turns=1, runtime=runtime, name="team")
    running = await speaking(team)
    client = team.on(runtime)
    with pytest.raises(TeamBusyError):
        await client.run(task="x", run_id="mine")
    Gated.gates["a"].set()
    await soon(running)
    assert texts(await soon(client.run(task="x", run_id="mine"))) == ["x", "a2:x"]


async def test_the_same_run_id_in_two_conversations_is_two_runs(runtime: RedisAgentRuntime) -> None:
    team = a_team(runtime, name="team", max_turns=2)
    await host(team, runtime, "team")
    clients = [team.on(runtime, name) for name in "xy"]
    results = await soon(asyncio.gather(*(one.run(task=one.conversation, run_id="1") for one in clients)))
    assert [texts(result) for result in results] == [[n, f"a1:{n}", f"b1:{n},a1"] for n in "xy"]


async def test_a_run_that_never_was_can_not_be_followed(runtime: RedisAgentRuntime) -> None:
    team = a_team(runtime, name="team", max_turns=2)
    await host(team, runtime, "team")
    with pytest.raises(RunUnknownError, match="no run 'nobody'"):
        await soon(anext(team.on(runtime).follow("nobody")))


async def test_a_run_whose_events_are_gone_can_not_be_read(runtime: RedisAgentRuntime) -> None:
    team = a_team(runtime, name="team", max_turns=2)
    await host(team, runtime, "team")
    client = team.on(runtime)
    await client.run(task="go", run_id="old")
    await runtime.delete_run(stream_of(AgentId("team", "default"), "old"))
    with pytest.raises(RunUnknownError):
        await soon(client.run(task="go", run_id="old"))
    assert texts(await soon(client.run(task="next")))[0] == "next"


async def test_a_run_that_has_ended_is_read_without_its_team(
    runtime: RedisAgentRuntime, runtimes: Runtimes
) -> None:
    team = a_team(runtime, name="team", max_turns=2)
    await host(team, runtime, "team")
    said = texts(await team.on(runtime).run(task="go", run_id="old"))
    await runtime.close()
    followed = [item async for item in team.on(runtimes.new()).follow("old")]
    assert texts(followed[-1]) == said  # type: ignore[arg-type]


async def test_who_can_not_cancel_a_run_does_not_wait_for_its_end(runtimes: Runtimes) -> None:
    runtime = await runtimes.started(settings={"drain_grace": 0.0})
    team = RoundRobinGroupChat([Gated("a")], runtime=runtime, name="team")
    await host(team, runtime, "team")
    reader, token = runtimes.new(settings={"request_timeout": 0.5}), CancellationToken()
    running = asyncio.ensure_future(team.on(reader).run(task="go", cancellation_token=token))
    await soon(Gated.began["a"].wait())
    await runtime.close()
    token.cancel()
    with pytest.raises(RequestTimeoutError):
        await soon(running)


@pytest.mark.parametrize("asked", [1, 2])
async def test_a_choice_that_never_ends_fails_the_run(runtimes: Runtimes, asked: int) -> None:
    async def choose(messages: Sequence[BaseAgentEvent | BaseChatMessage]) -> str | None:
        if len(messages) >= asked:
            await asyncio.Event().wait()
        return "a"

    model = ReplayChatCompletionClient([])
    team = SelectorGroupChat(
        [Echo("a"), Echo("b")], model_client=model, selector_func=choose, max_turns=3, name="team"
    )
    app = App("hangs")
    app.team(team, max_runtime=0.2)
    runtime = runtimes.of(app)
    runtime.start()
    with pytest.raises((TeamRunError, MaxRuntimeError), match="ran longer than max_runtime"):
        await soon(team.on(runtime).run(task="go"))
    assert (await soon(team.on(runtime).status())).state == "idle"


async def test_what_a_cancelled_turn_heard_is_not_heard_again(runtime: RedisAgentRuntime) -> None:
    """The member has answered before it could be cancelled, and its answer is behind the next task in the inbox."""
    team = RoundRobinGroupChat([Gated("a")], max_turns=1, runtime=runtime, name="team")
    running = await speaking(team)
    await runtime.control.pause(AgentId("team", "default"))
    before = await newest_for(runtime, "team")
    following = asyncio.ensure_future(team.on(runtime).run(task="second", if_busy="interrupt"))
    task = await newer_for(runtime, "team", before)
    Gated.gates["a"].set()
    await newer_for(runtime, "team", task)
    await runtime.control.resume(AgentId("team", "default"))
    with pytest.raises(RunCancelledError):
        await soon(running)
    assert texts(await soon(following)) == ["second", "a2:second"]


async def newest_for(runtime: RedisAgentRuntime, agent_type: str) -> bytes:
    """Id of the newest message in an inbox."""
    inbox = runtime.transport.keys.of(f"inbox:{agent_type}")
    (newest,) = await runtime.transport.admin.command("XREVRANGE", inbox, "+", "-", "COUNT", 1)
    return bytes(newest[0])


async def newer_for(runtime: RedisAgentRuntime, agent_type: str, before: bytes) -> bytes:
    """Waits for a newer one."""

    async def is_newer() -> bool:
        return await newest_for(runtime, agent_type) != before

    await eventually(is_newer)
    return await newest_for(runtime, agent_type)


async def test_a_late_answer_changes_nothing_after_a_reset(runtime: RedisAgentRuntime) -> None:
    team = RoundRobinGroupChat([Gated("a"), Echo("b")], max_turns=1, runtime=runtime, name="team")
    await host(team, runtime, "team")
    client = team.on(runtime)
    task = [TextMessage(content=str(number), source="user") for number in range(5)]
    running = asyncio.ensure_future(client.run(task=task))
    await soon(Gated.began["a"].wait())
    await client.abort()
    with pytest.raises(RunCancelledError):
        await soon(running)
    await soon(client.reset())
    Gated.gates["a"].set()
    await soon(client.save_state())  # behind the late answer
    assert texts(await soon(client.run(task="new"))) == ["new", "a1:new"]


async def test_a_run_that_waits_for_somebody_who_is_no_member_any_more_fails(
    runtime: RedisAgentRuntime, runtimes: Runtimes
) -> None:
    team = RoundRobinGroupChat([Gated("a"), Echo("b")], max_turns=6, runtime=runtime, name="team")
    await host(team, runtime, "team")
    client = team.on(runtime)
    running = asyncio.ensure_future(client.run(task="go", run_id="r"))
    await soon(Gated.began["a"].wait())
    await client.pause()
    Gated.gates["a"].set()
    await eventually(is_waiting_for(client, "b"))
    await runtime.close()
    await asyncio.wait([running])
    later = await runtimes.started()
    smaller = RoundRobinGroupChat([Echo("a")], max_turns=1, runtime=later, name="team")
    await host(smaller, later, "team")
    assert (await soon(smaller.on(later).status())).state == "idle"
    with pytest.raises(TeamRunError, match="no member of the team any more"):
        async for _ in smaller.on(later).follow("r"):
            pass
    assert texts(await soon(smaller.on(later).run(task="on")))[0] == "on"


class Flood(Echo):
    """Says very much."""

    def __init__(self, name: str, *, pieces: int = 0, length: int = 0) -> None:
        super().__init__(name)
        self._pieces, self._length = pieces, length

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[BaseAgentEvent | BaseChatMessage | Response, None]:
        for number in range(self._pieces):
            yield ModelClientStreamingChunkEvent(content=f"{number} ", source=self.name)
        yield Response(chat_message=TextMessage(content="x" * self._length, source=self.name))


class Counting(Echo):
    """Says how much it has heard."""

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        count = sum(len(message.to_text()) for message in messages)
        return Response(chat_message=TextMessage(content=str(count), source=self.name))


async def test_ten_thousand_pieces_of_a_text_arrive_in_their_order(runtime: RedisAgentRuntime) -> None:
    team = RoundRobinGroupChat([Flood("a", pieces=10_000)], max_turns=1, runtime=runtime)
    pieces = [
        int(item.content)
        async for item in team.run_stream(task="go")
        if isinstance(item, ModelClientStreamingChunkEvent)
    ]
    assert pieces == list(range(10_000))


async def test_messages_that_are_too_large_together_are_heard_and_shown(runtime: RedisAgentRuntime) -> None:
    loud = [Flood(name, length=400_000) for name in ("x", "y", "z")]
    inner = RoundRobinGroupChat(loud, max_turns=3, name="inner")
    team = RoundRobinGroupChat([inner, Counting("b")], max_turns=2, runtime=runtime)
    shown = [item async for item in team.run_stream(task="go")]
    result = shown.pop()
    assert isinstance(result, TaskResult)
    assert [len(text) for text in texts(result)[:-1]] == [2, 400_000, 400_000, 400_000]
    assert texts(result)[-1] == "1200002"
    assert [item.id for item in shown if not isinstance(item, TaskResult)] == [
        message.id for message in result.messages
    ]
