"""A team in this process: order, what members hear, how runs end, what is kept from one to the next."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from callboard.agents import TaskResult
from callboard.conditions import ExternalTermination, MaxMessageTermination, TextMentionTermination
from callboard.core.cancellation import CancellationToken
from callboard.messages import ModelClientStreamingChunkEvent, SelectSpeakerEvent, TextMessage
from callboard.teams import (
    RoundRobinGroupChat,
    TeamBusyError,
    TeamDeclarationError,
    TeamNotRunError,
    TeamRunError,
    TeamStateError,
)
from tests.helpers.chat import Echo, Streamer, texts


def a_team(*names: str, **options: Any) -> RoundRobinGroupChat:
    return RoundRobinGroupChat([Echo(name) for name in names or "abc"], **options)


async def test_members_speak_in_turn_and_hear_what_was_said_since_they_last_spoke() -> None:
    result = await a_team(max_turns=5).run(task="go")
    assert texts(result) == ["go", "a1:go", "b1:go,a1", "c1:go,a1,b1", "a2:b1,c1", "b2:c1,a2"]
    assert result.stop_reason == "Maximum number of turns 5 reached."


async def test_the_task_can_be_left_out_of_the_result() -> None:
    result = await a_team(max_turns=1).run(task="go", output_task_messages=False)
    assert texts(result) == ["a1:go"]


async def test_a_second_run_goes_on_where_the_first_ended() -> None:
    team = a_team(max_turns=2)
    await team.run(task="go")
    assert texts(await team.run()) == ["c1:go,a1,b1", "a2:b1,c1"]
    assert texts(await team.run(task="more")) == ["more", "b2:c1,a2,more", "c2:a2,more,b2"]


async def test_a_condition_ends_the_run_and_is_reset_for_the_next() -> None:
    team = a_team(termination_condition=MaxMessageTermination(3) | TextMentionTermination("c2"))
    first = await team.run(task="go")
    assert texts(first) == ["go", "a1:go", "b1:go,a1"]
    assert first.stop_reason == "Maximum number of messages 3 reached, current message count: 3"
    assert len((await team.run()).messages) == 3


async def test_a_condition_may_end_the_run_at_its_task() -> None:
    result = await a_team(termination_condition=TextMentionTermination("stop")).run(task="please stop")
    assert texts(result) == ["please stop"]
    assert result.stop_reason == "Text 'stop' mentioned"


async def test_pieces_of_a_text_are_shown_and_not_kept() -> None:
    team = RoundRobinGroupChat([Streamer("a")], max_turns=1)
    shown = [item async for item in team.run_stream(task="go")]
    kinds = [type(item) for item in shown]
    assert kinds == [
        TextMessage,
        ModelClientStreamingChunkEvent,
        ModelClientStreamingChunkEvent,
        TextMessage,
        TaskResult,
    ]
    result = shown[-1]
    assert isinstance(result, TaskResult)
    assert texts(result) == ["go", "a1:go"]


async def test_what_happens_on_the_way_is_kept_and_heard_by_nobody() -> None:
    team = RoundRobinGroupChat([Echo("a", thinks=True), Echo("b")], max_turns=2)
    assert texts(await team.run(task="go")) == ["go", "hm", "a1:go", "b1:go,a1"]


async def test_the_choice_of_speakers_is_shown_when_asked_for() -> None:
    result = await a_team(max_turns=1, emit_team_events=True).run(task="go")
    event = result.messages[1]
    assert isinstance(event, SelectSpeakerEvent)
    assert (event.content, event.source) == (["a"], "RoundRobinGroupChatManager")


async def test_a_member_that_fails_fails_the_run_and_says_where() -> None:
    team = RoundRobinGroupChat([Echo("a"), Echo("b", fails_at=1)], max_turns=4)
    with pytest.raises(TeamRunError, match="RuntimeError: b has nothing to say") as caught:
        await team.run(task="go")
    assert (caught.value.where, caught.value.error_type) == ("b", "RuntimeError")
    assert "on_messages" in caught.value.traceback
    assert texts(await team.run()) == ["a2:", "b2:go,a1,a2", "a3:b2", "b3:a3"]


async def test_one_run_at_a_time() -> None:
    team = a_team(max_turns=3)
    stream = team.run_stream(task="go")
    await anext(stream)
    with pytest.raises(TeamBusyError, match="already running"):
        await team.run(task="another")
    with pytest.raises(TeamNotRunError):
        await team.reset()
    with pytest.raises(TeamNotRunError):
        await team.load_state({})
    await stream.aclose()
    assert texts(await team.run(task="another"))[0] == "another"


async def test_cancelled_in_the_middle_and_run_again() -> None:
    """AutoGen's team ends at once then, because it waits for whom it had asked before."""
    token = CancellationToken()
    team = RoundRobinGroupChat([Waiting("a"), Echo("b")], max_turns=2)
    running = asyncio.ensure_future(team.run(task="go", cancellation_token=token))
    a = team.participants[0]
    assert isinstance(a, Waiting)
    await a.began.wait()
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    a.may_end.set()
    assert len((await team.run(task="again")).messages) == 3


class Waiting(Echo):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.began = asyncio.Event()
        self.may_end = asyncio.Event()

    async def on_messages_stream(self, messages: Any, cancellation_token: Any) -> AsyncGenerator[Any, None]:
        self.began.set()
        await self.may_end.wait()
        yield await self.on_messages(messages, cancellation_token)


async def test_cancelled_while_nobody_waits_for_anything() -> None:
    """Members that answer at once leave room between their turns for whoever cancels."""
    token = CancellationToken()
    team = a_team(max_turns=1000)
    running = asyncio.ensure_future(team.run(task="go", cancellation_token=token))
    for _ in range(20):
        await asyncio.sleep(0)
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_who_reads_can_end_a_run_in_which_nobody_waits_for_anything() -> None:
    stop = ExternalTermination()
    team = a_team(max_turns=1000, termination_condition=stop)
    shown = []
    async for item in team.run_stream(task="go"):
        shown.append(item)
        stop.set()
    result = shown[-1]
    assert isinstance(result, TaskResult)
    assert result.stop_reason == "External termination requested"


async def test_paused_nobody_begins_to_speak() -> None:
    team = RoundRobinGroupChat([Waiting("a"), Echo("b")], max_turns=2)
    with pytest.raises(TeamNotRunError):
        await team.pause()
    running = asyncio.ensure_future(team.run(task="go"))
    a, b = team.participants
    assert isinstance(a, Waiting)
    assert isinstance(b, Echo)
    await a.began.wait()
    await team.pause()
    a.may_end.set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert (a.spoken, b.spoken, b.calls) == (1, 0, ["pause"])
    await team.resume()
    assert texts(await running) == ["go", "a1:go", "b1:go,a1"]
    assert b.calls == ["pause", "resume"]


async def test_a_team_is_a_member_of_a_team() -> None:
    inner = a_team("x", "y", max_turns=2, name="inner")
    team = RoundRobinGroupChat([inner, Echo("b")], max_turns=3)
    result = await team.run(task="go")
    assert texts(result) == ["go", "x1:go", "y1:go,x1", "b1:go,x1,y1", "x2:y1,b1", "y2:b1,x2"]


async def test_saved_in_the_middle_and_loaded_into_new_objects_it_says_the_same() -> None:
    def make() -> RoundRobinGroupChat:
        return a_team(termination_condition=MaxMessageTermination(9), max_turns=2)

    whole, first, second = make(), make(), make()
    expected = texts(await whole.run(task="go")) + texts(await whole.run()) + texts(await whole.run())
    said = texts(await first.run(task="go"))
    await second.load_state(await first.save_state())
    assert said + texts(await second.run()) + texts(await second.run()) == expected


async def test_a_state_of_autogen_loads() -> None:
    team = a_team("a", "b", max_turns=2)

    def text(id: str, source: str, content: str) -> dict[str, Any]:
        return {
            "id": id,
            "source": source,
            "models_usage": None,
            "metadata": {},
            "created_at": "2025-01-01T00:00:00Z",
            "content": content,
            "type": "TextMessage",
        }

    thread = [text("1", "user", "go"), text("2", "a", "a1:go"), text("3", "b", "b1:go,a1")]
    containers = {"type": "ChatAgentContainerState", "version": "1.0.0"}
    await team.load_state(
        {
            "type": "TeamState",
            "version": "1.0.0",
            "agent_states": {
                "a": {**containers, "agent_state": {"spoken": 1}, "message_buffer": [thread[2]]},
                "b": {**containers, "agent_state": {"spoken": 1}, "message_buffer": []},
                "RoundRobinGroupChatManager": {
                    "type": "RoundRobinManagerState",
                    "version": "1.0.0",
                    "message_thread": thread,
                    "current_turn": 0,
                    "next_speaker_index": 0,
                },
            },
        }
    )
    assert texts(await team.run()) == ["a2:b1", "b2:a2"]


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ({}, "not what a team's save_state returns"),
        ({"type": "TeamState", "agent_states": {"a": {}}}, "Agent state for b not found"),
    ],
)
async def test_a_state_that_does_not_fit_is_refused(state: dict[str, Any], problem: str) -> None:
    with pytest.raises(TeamStateError, match=problem):
        await a_team().load_state(state)


@pytest.mark.parametrize(
    ("names", "options", "problem"),
    [
        ("", {}, "At least one participant"),
        ("aa", {}, "must be unique"),
        ("a", {"max_turns": 0}, "greater than 0"),
        ("a", {"name": "my team"}, "valid Python identifier"),
        ("a", {"termination_condition": "DONE"}, "'DONE' can't be a termination_condition: give an object"),
        ("a", {"termination_condition": MaxMessageTermination}, "can't be a termination_condition"),
    ],
)
def test_what_can_be_no_team(names: str, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        RoundRobinGroupChat([Echo(name) for name in names], **options)


@pytest.mark.parametrize(
    ("participants", "problem"),
    [
        (Echo("a"), "have to be a list, .* and not a Echo"),
        ({"a": Echo("a")}, "and not a dict"),
        ("a", "and not a str"),
        (["a"], "'a' can't take part in a team"),
        ([Echo], "can't take part in a team: give an agent"),
    ],
)
def test_who_can_be_in_no_team(participants: Any, problem: str) -> None:
    with pytest.raises(TeamDeclarationError, match=problem):
        RoundRobinGroupChat(participants)


@pytest.mark.parametrize("task", [[], ["text"], 7, {"content": "x"}])
async def test_what_is_no_task(task: Any) -> None:
    with pytest.raises(ValueError, match=r"empty|Invalid message type|is no task"):
        await a_team().run(task=task)


async def test_a_state_that_one_member_refuses_is_loaded_by_nobody() -> None:
    team = a_team(max_turns=2)
    await team.run(task="go")
    saved = copy.deepcopy(dict(await team.save_state()))
    saved["agent_states"]["a"]["agent_state"] = {"spoken": 7}
    saved["agent_states"]["b"]["agent_state"] = {}
    with pytest.raises(KeyError):
        await team.load_state(saved)
    assert [text.partition(":")[0] for text in texts(await team.run())] == ["c1", "a2"]
