"""A group chat as a team: clearing histories, introductions, and going on with an earlier chat.

The members here are the same as on the bus: nobody has the histories of the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from callboard.agents import TaskResult
from callboard.groupchat import ConversableAgent, GroupChat, GroupChatManager
from callboard.memory.llm_messages import LLMMessage
from callboard.models import ReplayChatCompletionClient
from tests.helpers.group_chats import CLEARINGS, Scripted

NAMES = ("alice", "bob", "carol")


def counting(messages: Sequence[LLMMessage]) -> str:
    """What an agent's model answers: how much it has heard."""
    return str(len(messages) - 1)


def agents_of(names: Sequence[str] = NAMES, model: Callable[..., Any] = counting) -> list[ConversableAgent]:
    return [
        ConversableAgent(
            name,
            description=f"is {name}",
            human_input_mode="NEVER",
            silent=True,
            llm_config=ReplayChatCompletionClient([], default=model),
        )
        for name in names
    ]


def says_once(agent: ConversableAgent, heard: int, reply: Any) -> None:
    """Has an agent say something when it has heard so many messages for the first time."""
    said: list[Any] = []

    def answer(agent: Any, messages: Any, **_: Any) -> Any:
        if said or len(messages) != heard:
            return False, None
        said.append(reply)
        return True, reply

    agent.register_reply(lambda sender: True, answer)


def texts(result: TaskResult) -> list[str]:
    return [message.to_text() for message in result.messages]


@pytest.mark.parametrize(
    ("words", "text", "kept"),
    [
        *CLEARINGS,
        ("history clear", "history clear", [6, 6, 6, 6]),
    ],
)
async def test_what_is_cleared(words: str, text: str, kept: list[int]) -> None:
    """Carol says it, when everybody has heard six messages; then each says how many it has."""
    members = agents_of()
    had: list[int] = []
    says_once(members[2], 6, {"content": words})

    def choose(last: Any, chat: GroupChat) -> str:
        had.append(len(chat.messages))
        return "round_robin"

    chat = GroupChat(members, speaker_selection_method=choose, max_round=10, enable_clear_history=True)
    team = GroupChatManager(chat, silent=True).team()
    said = texts(await team.run(task="go"))
    group, alice, bob, carol = kept
    assert said[6:] == [text, str(alice + 1), str(bob + 2), str(carol + 3)]
    assert had[6] == group + 1


@pytest.mark.parametrize(
    ("is_enabled", "reply"), [(False, {"content": "clear history"}), (True, "clear history")]
)
async def test_what_is_said_where_it_is_not_enabled_or_no_message(is_enabled: bool, reply: Any) -> None:
    members = agents_of()
    says_once(members[0], 1, reply)
    chat = GroupChat(
        members, speaker_selection_method="round_robin", max_round=3, enable_clear_history=is_enabled
    )
    assert texts(await GroupChatManager(chat, silent=True).team().run(task="go")) == [
        "go",
        "clear history",
        "2",
    ]


async def test_everybody_is_introduced_once_to_each_member_alone() -> None:
    def first(messages: Sequence[LLMMessage]) -> str:
        return f"{len(messages) - 1}: {messages[1].content}"

    members = agents_of(model=first)
    chat = GroupChat(members, speaker_selection_method="round_robin", max_round=4, send_introductions=True)
    team = GroupChatManager(chat, name="lessons", silent=True).team()
    whole = chat.introductions_msg()
    assert texts(await team.run(task="go")) == ["go", f"2: {whole}", f"3: {whole}", f"4: {whole}"]
    state = json.loads(json.dumps(await team.save_state()))
    other = GroupChatManager(chat, name="lessons", silent=True).team()
    await other.load_state(state)
    for one in (team, other):
        assert texts(await one.run(task="more"))[1] == f"6: {whole}"
    await team.reset()
    assert texts(await team.run(task="anew"))[1] == f"2: {whole}"


ONE: dict[str, Any] = {"role": "user", "content": "one", "name": "alice"}
TWO: dict[str, Any] = {"role": "user", "content": "two", "name": "bob"}


def a_group(max_round: int = 3, **options: Any) -> GroupChatManager:
    chat = GroupChat(agents_of(), speaker_selection_method="round_robin", max_round=max_round, **options)
    return GroupChatManager(chat, name="lessons", silent=True)


@pytest.mark.parametrize("as_text", [False, True])
async def test_it_goes_on_with_earlier_messages(as_text: bool, stream: Scripted) -> None:
    manager = a_group(send_introductions=True)
    given: Any = json.dumps([ONE, TWO]) if as_text else [ONE, TWO]
    state, last = manager.resumed(given)
    assert (last.source, last.to_text()) == ("bob", "two")
    assert stream.kinds == ["group_chat_resume"]
    team = manager.team()
    await team.load_state(json.loads(json.dumps(state)))
    result = await team.run(task=last)
    # After bob comes carol. Each has heard both messages, introductions are over, and rounds are counted anew.
    assert [(message.source, message.to_text()) for message in result.messages] == [
        ("bob", "two"),
        ("carol", "2"),
        ("alice", "3"),
    ]


async def test_what_was_saved_goes_on_with_rounds_and_variables() -> None:
    first = a_group(max_round=3)
    starter = first.groupchat.agents[0]
    assert isinstance(starter, ConversableAgent)
    starter.context_variables["topic"] = "ducks"
    await starter.a_initiate_chat(first, message="hi", silent=True)
    second = a_group(max_round=5)
    state, last = second.resumed(await first.save_state(), silent=True)
    team = second.team()
    await team.load_state(state)
    result = await team.run(task=last)
    assert [message.source for message in result.messages] == ["carol", "alice", "bob"]
    saved = (await team.save_state())["agent_states"]["alice"]["agent_state"]
    assert saved["context_variables"] == {"topic": "ducks"}


@pytest.mark.parametrize(
    ("given", "error"), [([], "no messages"), ([{**ONE, "name": "nobody"}], "nobody"), ('{"a": 1}', "list")]
)
def test_what_can_t_be_resumed(given: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        a_group().resumed(given)


def test_the_last_message_may_be_changed() -> None:
    _, last = a_group().resumed([{**ONE, "content": "x TERMINATE"}], "TERMINATE", silent=True)
    assert last.to_text() == "x "
