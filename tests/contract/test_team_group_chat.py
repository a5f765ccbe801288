"""A group chat on the bus: its members are actors, and it says what it says in one process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from callboard.agents import TaskResult
from callboard.groupchat import ConversableAgent, ConversationMessage, GroupChat, GroupChatManager
from callboard.memory.llm_messages import LLMMessage
from callboard.messages import BaseChatMessage, SelectorEvent
from callboard.models import ReplayChatCompletionClient
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import TeamRunError
from tests.helpers.chat import Echo
from tests.helpers.runtimes import Runtimes


@pytest.fixture
async def runtime(runtimes: Runtimes) -> RedisAgentRuntime:
    made = runtimes.new()
    made.start()
    return made


def counting(messages: Sequence[LLMMessage]) -> str:
    """What an agent's model answers: how much it has read."""
    return f"{len(messages) - 1} heard"


def naming(messages: Sequence[LLMMessage]) -> str:
    """Whom a manager's model chooses: by how much was said."""
    return "abc"[len(messages) % 3]


def a_manager(method: Any = "round_robin", max_round: int = 5, **options: Any) -> GroupChatManager:
    """A group of three with models; what they answer depends on what they read alone."""
    agents = [
        ConversableAgent(
            name,
            description=name,
            human_input_mode="NEVER",
            silent=True,
            llm_config=ReplayChatCompletionClient([], default=counting),
        )
        for name in "abc"
    ]
    chat = GroupChat(agents, speaker_selection_method=method, max_round=max_round, **options)
    model = ReplayChatCompletionClient([], default=naming)
    return GroupChatManager(chat, name="lessons", llm_config=model, silent=True)


def said(result: TaskResult) -> list[tuple[str, str]]:
    return [
        (message.source, message.to_text())
        for message in result.messages
        if isinstance(message, BaseChatMessage)
    ]


async def said_here(manager: GroupChatManager) -> list[tuple[str, str]]:
    """What the same group says in this process, when somebody from outside begins."""
    user = ConversableAgent("user", human_input_mode="NEVER", silent=True)
    await user.a_initiate_chat(manager, message="hi", silent=True)
    return [(message["name"], message["content"]) for message in manager.groupchat.messages]


@pytest.mark.parametrize("method", ["round_robin", "auto"])
async def test_it_says_on_the_bus_what_it_says_here(method: str, runtime: RedisAgentRuntime) -> None:
    result = await a_manager(method).team(runtime=runtime).run(task="hi")
    assert said(result) == await said_here(a_manager(method))
    assert result.stop_reason == "Maximum rounds (5) reached"
    assert all(isinstance(item, ConversationMessage | SelectorEvent) for item in result.messages[1:])


async def test_what_a_model_used_to_choose_is_shown(runtime: RedisAgentRuntime) -> None:
    result = await a_manager("auto", 3).team(runtime=runtime).run(task="hi")
    events = [item for item in result.messages if isinstance(item, SelectorEvent)]
    assert [event.models_usage is not None for event in events] == [True, True]


async def test_each_run_has_its_rounds_and_goes_on_with_the_conversation(runtimes: Runtimes) -> None:
    spoken = []
    for task in ("hi", "more"):
        runtime = runtimes.new()
        runtime.start()
        spoken.append(said(await a_manager(max_round=3).team(runtime=runtime).run(task=task)))
        await runtime.stop()
    assert spoken == [
        [("user", "hi"), ("a", "1 heard"), ("b", "2 heard")],
        [("user", "more"), ("a", "4 heard"), ("b", "5 heard")],
    ]


async def test_conversations_do_not_mix(runtime: RedisAgentRuntime) -> None:
    expected = await said_here(a_manager("auto"))
    manager = a_manager("auto")
    teams = [manager.team(runtime=runtime, conversation=name) for name in ("one", "two", "three")]
    results = await asyncio.gather(*(team.run(task="hi") for team in teams))
    assert [said(result) for result in results] == [expected] * 3


async def test_what_agents_remember_here_is_no_part_of_it(runtime: RedisAgentRuntime) -> None:
    manager = a_manager("auto")
    expected = await said_here(manager)
    assert said(await manager.team(runtime=runtime).run(task="hi")) == expected
    first = manager.groupchat.agents[0]
    assert isinstance(first, ConversableAgent)
    assert len(first.chat_messages[manager]) == len(manager.groupchat.messages) == 5


async def test_a_function_chooses_and_ends_it(runtime: RedisAgentRuntime) -> None:
    def choose(last: Any, chat: GroupChat) -> Any:
        return chat.agent_by_name("c") if len(chat.messages) < 3 else None

    result = await a_manager(choose).team(runtime=runtime).run(task="hi")
    assert [source for source, _ in said(result)] == ["user", "c", "c"]
    assert result.stop_reason == "No next speaker selected"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("TERMINATE", "Termination message condition on the GroupChatManager 'lessons' met"),
        (None, "No reply generated"),
    ],
)
async def test_how_it_ends(reply: str | None, reason: str, runtime: RedisAgentRuntime) -> None:
    manager = a_manager()
    last = manager.groupchat.agents[1]
    assert isinstance(last, ConversableAgent)
    last.register_reply(lambda sender: True, lambda agent, **_: (True, reply))
    result = await manager.team(runtime=runtime).run(task="hi")
    assert result.stop_reason == reason


async def test_other_agents_can_be_members(runtime: RedisAgentRuntime) -> None:
    first = a_manager().groupchat.agents[0]
    chat = GroupChat([first, Echo("b")], speaker_selection_method="round_robin", max_round=3)
    result = await GroupChatManager(chat, name="lessons", silent=True).team(runtime=runtime).run(task="hi")
    assert said(result)[2] == ("b", "b1:hi,1 heard")


async def test_saved_it_goes_on_here(runtime: RedisAgentRuntime) -> None:
    there = a_manager("auto").team(runtime=runtime)
    await there.run(task="hi")
    state = json.loads(json.dumps(await there.save_state()))
    here = a_manager("auto").team()
    await here.load_state(state)
    assert said(await here.run(task="more")) == said(await there.run(task="more"))


@pytest.mark.parametrize(
    ("module", "step"),
    [("member", "member answers"), ("bus_run", "turn ends")],
)
async def test_what_was_paid_is_not_paid_again(
    module: str, step: str, runtime: RedisAgentRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[str] = []

    async def fail_once(reached: str) -> None:
        if reached == step and not failed:
            failed.append(reached)
            raise ConnectionError("the process would have died here")

    executed: list[int] = []

    def add(x: int) -> int:
        executed.append(x)
        return x + 1

    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"x": 1}'}}
    manager = a_manager("auto", max_round=4)
    first, second, third = manager.groupchat.agents
    for agent in (first, second, third):
        assert isinstance(agent, ConversableAgent)
        agent.register_function({"add": add})
    task = ConversationMessage(data={"role": "assistant", "content": "", "tool_calls": [call]}, source="user")
    monkeypatch.setattr(f"callboard.teams.{module}.reached", fail_once)
    result = await manager.team(runtime=runtime).run(task=task)
    assert failed == [step]
    assert said(result)[1] == ("a", "2")
    assert executed == [1]
    model = manager.client
    assert isinstance(model, ReplayChatCompletionClient)
    asked = [str(call["messages"]) for call in model.create_calls]
    assert len(asked) == len(set(asked)) == 3


async def test_histories_are_cleared_wherever_their_owners_are(runtimes: Runtimes) -> None:
    """The second run takes place in another process, as it were."""
    spoken = []
    for task in ("hi", "more"):
        manager = a_manager(max_round=4, enable_clear_history=True, send_introductions=True)
        second = manager.groupchat.agents[1]
        assert isinstance(second, ConversableAgent)
        second.register_reply(
            lambda sender: True,
            lambda agent, messages, **_: (len(messages) == 3, {"content": "clear history 1"}),
        )
        runtime = await runtimes.started()
        spoken.append(said(await manager.team(runtime=runtime).run(task=task)))
        await runtime.stop()
    # Each keeps the last message; then it hears what was said since.
    assert spoken == [
        [("user", "hi"), ("a", "2 heard"), ("b", ""), ("c", "2 heard")],
        [("user", "more"), ("a", "4 heard"), ("b", "5 heard"), ("c", "6 heard")],
    ]


async def test_an_earlier_chat_goes_on_here(runtime: RedisAgentRuntime) -> None:
    manager = a_manager(max_round=3)
    state, last = manager.resumed([{"content": "one", "name": "a"}, {"content": "two", "name": "b"}])
    team = manager.team(runtime=runtime)
    await team.load_state(state)
    assert said(await team.run(task=last)) == [("b", "two"), ("c", "2 heard"), ("a", "3 heard")]


async def test_a_set_up_that_cannot_work_fails_the_run(runtime: RedisAgentRuntime) -> None:
    with pytest.raises(TeamRunError, match="sometimes"):
        await a_manager("sometimes").team(runtime=runtime).run(task="hi")
