"""Teams of the real AgentChat on our bus: the same transcripts as on their own runtime."""

# pyright: reportMissingImports=false
from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from autogen_agentchat.agents import BaseChatAgent
from autogen_agentchat.base import Response, TaskResult
from autogen_agentchat.messages import ModelClientStreamingChunkEvent, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken, SingleThreadedAgentRuntime

from tests.helpers.eventually import eventually

from .teams import KINDS, Listener, members, round_robin, streaming, transcript


async def on_their_own(make: Callable[[Any], Any], *tasks: str) -> list[list[tuple[str, str, str]]]:
    runtime = SingleThreadedAgentRuntime()
    runtime.start()
    team = make(runtime)
    said = [transcript(await team.run(task=task)) for task in tasks]
    await runtime.stop_when_idle()
    return said


@pytest.mark.parametrize("kind", KINDS)
async def test_a_team_says_the_same_as_on_its_own_runtime(kind: str, runtime: Any) -> None:
    expected = await on_their_own(KINDS[kind], "Begin.")
    team = KINDS[kind](runtime)
    said = transcript(await asyncio.wait_for(team.run(task="Begin."), 30))
    assert said == expected[0]
    assert len(said) > 3


async def test_nothing_else_has_to_change(url: str) -> None:
    """Neither start() nor stop(): the runtime begins by itself."""
    from callboard.interop.autogen import CallboardRuntime

    runtime = CallboardRuntime(url)
    try:
        result = await asyncio.wait_for(round_robin(runtime).run(task="Begin."), 30)
    finally:
        await runtime.close()
    assert len(result.messages) == 8


async def test_a_second_task_goes_on_from_the_first(runtime: Any) -> None:
    expected = await on_their_own(round_robin, "Begin.", "And on.")
    team = round_robin(runtime)
    assert [transcript(await team.run(task=task)) for task in ("Begin.", "And on.")] == expected


async def test_a_reset_team_begins_anew(runtime: Any) -> None:
    team = round_robin(runtime)
    first = transcript(await team.run(task="Begin."))
    await team.reset()
    assert transcript(await team.run(task="Begin.")) == first


async def test_a_saved_team_goes_on_in_another(make_runtime: Callable[..., Any]) -> None:
    expected = await on_their_own(round_robin, "Begin.", "And on.")
    team = round_robin(make_runtime())
    await team.run(task="Begin.")
    state = await team.save_state()
    other = round_robin(make_runtime())
    await other.load_state(state)
    assert transcript(await other.run(task="And on.")) == expected[1]


async def test_chunks_come_while_the_model_speaks(runtime: Any) -> None:
    stream = streaming(runtime).run_stream(task="What is two and three?")
    kinds = [type(message) async for message in stream]
    chunk = kinds.index(ModelClientStreamingChunkEvent)
    assert chunk < kinds.index(TaskResult)
    assert kinds.count(ModelClientStreamingChunkEvent) > 2


class Slow(BaseChatAgent):
    """Speaks until it is paused or cancelled."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "takes its time")
        self.begun, self.paused, self.resumed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.token: Any = None

    @property
    def produced_message_types(self) -> tuple[type[Any], ...]:
        return (TextMessage,)

    async def on_messages(self, messages: Any, cancellation_token: Any) -> Any:
        self.token = cancellation_token
        self.begun.set()
        await cancellation_token.link_future(asyncio.ensure_future(self.resumed.wait()))
        return Response(chat_message=TextMessage(content="at last", source=self.name))

    async def on_pause(self, cancellation_token: Any) -> None:
        self.paused.set()

    async def on_resume(self, cancellation_token: Any) -> None:
        self.resumed.set()

    async def on_reset(self, cancellation_token: Any) -> None:
        pass


async def test_pause_and_resume_reach_a_member_that_speaks(runtime: Any) -> None:
    slow = Slow("slow")
    team = RoundRobinGroupChat([slow], max_turns=1, runtime=runtime)
    running = asyncio.create_task(team.run(task="Begin."))
    await asyncio.wait_for(slow.begun.wait(), 10)
    await asyncio.wait_for(team.pause(), 10)
    assert slow.paused.is_set()
    assert not running.done()
    await asyncio.wait_for(team.resume(), 10)
    assert transcript(await running)[1] == ("TextMessage", "slow", "at last")


async def test_pause_reaches_a_member_that_is_idle(runtime: Any) -> None:
    slow = Slow("slow")
    slow.resumed.set()
    team = RoundRobinGroupChat([slow], max_turns=1, runtime=runtime)
    await team.run(task="Begin.")
    await asyncio.wait_for(team.pause(), 10)
    assert slow.paused.is_set()


async def test_cancelling_a_run_cancels_the_member_that_speaks(runtime: Any) -> None:
    slow, token = Slow("slow"), CancellationToken()
    team = RoundRobinGroupChat([slow], max_turns=1, runtime=runtime)
    running = asyncio.create_task(team.run(task="Begin.", cancellation_token=token))
    await asyncio.wait_for(slow.begun.wait(), 10)
    assert slow.token is token, "in one process it is the same object, as in AutoGen"
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


class Failing(Listener):
    """Raises in its second turn."""

    async def on_messages(self, messages: Any, cancellation_token: Any) -> Any:
        answer = await super().on_messages(messages, cancellation_token)
        if len(self.heard) > 2:
            raise ValueError("no more")
        return answer


async def test_what_a_member_raises_ends_the_run_and_is_not_tried_again(runtime: Any) -> None:
    failing = Failing("bob")
    team = RoundRobinGroupChat([members()[0], failing], max_turns=9, runtime=runtime)
    with pytest.raises(RuntimeError, match="no more"):
        await asyncio.wait_for(team.run(task="Begin."), 30)
    await eventually(lambda: runtime.unprocessed_messages_count == 0)
    assert len(failing.heard) == 3, "a second attempt would have heard it again"
