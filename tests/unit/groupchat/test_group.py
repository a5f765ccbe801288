"""Section 2.3 of the reference: what a group chat knows."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.groupchat import AgentNameConflictError, GroupChat
from tests.helpers.group_chats import a_group, a_manager, an_agent


def test_names_and_reset() -> None:
    chat = a_group(messages=[{"role": "user", "content": "hi"}])
    assert chat.agent_names == ["a", "b", "c"]
    chat.reset()
    assert chat.messages == []


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        ("hi", "hi"),
        (1, "1"),
        (None, "None"),
        ({"x": 1}, "{'x': 1}"),
        ([{"type": "text"}], [{"type": "text"}]),
    ],
)
def test_a_content_becomes_a_text_or_stays_a_list(content: Any, kept: Any) -> None:
    chat = a_group()
    chat.append({"role": "user", "content": content, "name": "x"}, chat.agents[1])
    assert chat.messages == [{"role": "user", "content": kept, "name": "b"}]


def test_a_function_keeps_its_name() -> None:
    chat = a_group()
    chat.append({"role": "function", "content": "3", "name": "add"}, chat.agents[1])
    assert chat.messages[0]["name"] == "add"


@pytest.mark.parametrize("message", [{"content": "hi"}, {"role": "user"}], ids=["no role", "no content"])
def test_a_message_has_a_role_and_a_content(message: dict[str, Any]) -> None:
    chat = a_group()
    with pytest.raises(KeyError):
        chat.append(message, chat.agents[0])


def a_nested_group() -> GroupChat:
    inner = a_manager(a_group("xa"), name="inner")
    return GroupChat([an_agent("a"), inner, an_agent("b")])


def test_nested_agents() -> None:
    assert [agent.name for agent in a_nested_group().nested_agents()] == ["a", "inner", "x", "a", "b"]


def test_agents_by_name() -> None:
    chat = a_nested_group()
    assert chat.agent_by_name("b") is chat.agents[2]
    assert chat.agent_by_name("x") is None
    found = chat.agent_by_name("x", recursive=True)
    assert found is not None
    assert found.name == "x"
    assert chat.agent_by_name("a", recursive=True) is chat.agents[0]
    with pytest.raises(AgentNameConflictError):
        chat.agent_by_name("a", recursive=True, raise_on_name_conflict=True)


def test_introductions(caplog: pytest.LogCaptureFixture) -> None:
    greeting, blank, *lines = a_group("ab").introductions_msg().split("\n")
    assert greeting
    assert blank == ""
    assert lines == ["a: the agent a", "b: the agent b"]
    assert not caplog.records


def test_somebody_without_a_description(caplog: pytest.LogCaptureFixture) -> None:
    chat = GroupChat([an_agent("a", description=""), an_agent("b")])
    assert chat.introductions_msg().split("\n")[2] == "a:"
    assert "a has no description" in caplog.text


def test_texts_for_some_agents() -> None:
    chat = a_group(
        select_speaker_message_template="{roles}!{agentlist}", select_speaker_prompt_template="{agentlist}?{}"
    )
    some = chat.agents[1:]
    assert chat.select_speaker_msg(some) == "b: the agent b\nc: the agent c!['b', 'c']"
    assert chat.select_speaker_prompt(some) == "['b', 'c']?{}"
