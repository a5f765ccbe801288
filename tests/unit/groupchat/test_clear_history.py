"""Section 2.5 of the reference: "clear history"."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.groupchat import ConversableAgent, GroupChat, GroupChatManager
from tests.helpers.group_chats import CLEARINGS, Scripted, a_manager, agents, an_agent

NAMES = ("alice", "bob", "carol")


def a_long_chat() -> GroupChatManager:
    """Six messages in the group, and six that each agent has heard."""
    group = agents(NAMES)
    chat = GroupChat(group, [{"role": "user", "content": str(i), "name": "alice"} for i in range(6)])
    manager = a_manager(chat)
    for agent in group:
        for i in range(6):
            manager.send(str(i), agent, request_reply=False, silent=True)
    return manager


def left(manager: GroupChatManager) -> list[int]:
    """How many messages the group, and each agent, have left."""
    agents = [agent for agent in manager.groupchat.agents if isinstance(agent, ConversableAgent)]
    return [len(manager.groupchat.messages), *(len(agent.chat_messages[manager]) for agent in agents)]


@pytest.mark.parametrize(
    ("said", "text", "kept"),
    [
        *CLEARINGS,
        ("clear something 1", "", [1, 1, 1, 1]),
        ("history clear", "history", [0, 0, 0, 0]),
        ("clear history for bob", "clear history for bob", [6, 6, 6, 6]),
    ],
)
def test_what_is_cleared(said: str, text: str, kept: list[int]) -> None:
    manager = a_long_chat()
    assert manager.clear_agents_history({"content": said}, manager.groupchat) == text
    assert left(manager) == kept


@pytest.mark.parametrize(
    ("said", "kept"), [("clear history", 1), ("clear history 2", 2), ("clear history 0", 1)]
)
def test_calls_are_kept_where_the_message_answers_them(said: str, kept: int) -> None:
    manager = a_long_chat()
    reply: dict[str, Any] = {"content": said, "tool_responses": [{}]}
    manager.clear_agents_history(reply, manager.groupchat)
    assert left(manager) == [kept] * 4


def test_the_user_is_told(stream: Scripted) -> None:
    manager = a_long_chat()
    manager.clear_agents_history({"content": "clear history bob 2"}, manager.groupchat)
    manager.clear_agents_history({"content": "clear history nobody 1"}, manager.groupchat)
    cleared, refused = stream.events
    assert cleared.text == "Cleared the history of bob except for the last 2."
    assert "nobody" in refused.text
    assert ", ".join(NAMES) in refused.text


@pytest.mark.parametrize(
    ("is_enabled", "reply", "expected"),
    [
        (True, {"content": "Clear history, ok"}, ["ok", "a"]),
        (False, {"content": "clear history ok"}, ["hi", "clear history ok", "a"]),
        (True, "clear history ok", ["hi", "clear history ok", "a"]),
    ],
    ids=["on", "off", "not a dict"],
)
def test_it_happens_in_a_chat(is_enabled: bool, reply: Any, expected: list[str]) -> None:
    if is_enabled and isinstance(reply, dict):
        reply = {"content": "clear history ok"}
    a, b = an_agent("a"), an_agent("b", reply)
    chat = GroupChat(
        [a, b], speaker_selection_method="round_robin", enable_clear_history=is_enabled, max_round=3
    )
    a.initiate_chat(a_manager(chat), message="hi", silent=True)
    assert [message["content"] for message in chat.messages] == expected
