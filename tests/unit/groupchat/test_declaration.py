"""Section 2.1 of the reference: what a group chat may be declared as."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.ag2 import initiate_group_chat
from callboard.groupchat import (
    ConversableAgent,
    GroupChat,
    GroupChatDeclarationError,
    GroupChatManager,
    MessageHistoryLimiter,
    TransformMessages,
)
from callboard.models import ReplayChatCompletionClient
from tests.helpers.group_chats import agents, an_agent


@pytest.mark.parametrize("agent", ["ann", None, ConversableAgent])
def test_who_can_not_take_part(agent: Any) -> None:
    with pytest.raises(GroupChatDeclarationError, match="can't take part in a chat: give the agent itself"):
        GroupChat([agent])
    with pytest.raises(GroupChatDeclarationError, match="can't take part in a chat: give the agent itself"):
        an_agent("bob").initiate_chat(agent, message="hello")


def test_a_manager_needs_a_group_chat() -> None:
    members: Any = agents()
    with pytest.raises(GroupChatDeclarationError, match="A list is no group chat: write GroupChatManager"):
        GroupChatManager(members)


def test_a_chat_of_a_pattern_needs_a_pattern() -> None:
    members: Any = agents()
    with pytest.raises(GroupChatDeclarationError, match="A list is no pattern: write DefaultPattern"):
        initiate_group_chat(members, "hello")


def test_defaults() -> None:
    chat = GroupChat(agents())
    assert (chat.messages, chat.max_round, chat.admin_name) == ([], 10, "Admin")
    assert (chat.func_call_filter, chat.speaker_selection_method) == (True, "auto")
    assert chat.max_retries_for_selecting_speaker == 2
    assert chat.allow_repeat_speaker is True
    assert (chat.enable_clear_history, chat.send_introductions) == (False, False)
    assert chat.role_for_select_speaker_messages == "system"
    assert chat.select_speaker_auto_verbose is False


@pytest.mark.parametrize(
    "options",
    [
        {"max_retries_for_selecting_speaker": None},
        {"max_retries_for_selecting_speaker": 1.5},
        {"max_retries_for_selecting_speaker": "2"},
        {"max_retries_for_selecting_speaker": -1},
        {"allow_repeat_speaker": ()},
        {"allow_repeat_speaker": 1},
        {"speaker_transitions_type": "some"},
        {"select_speaker_message_template": ""},
        {"select_speaker_message_template": None},
        {"select_speaker_auto_multiple_template": ""},
        {"select_speaker_auto_multiple_template": None},
        {"select_speaker_auto_none_template": ""},
        {"select_speaker_auto_none_template": None},
        {"select_speaker_auto_verbose": 1},
        {"select_speaker_auto_verbose": None},
        {"role_for_select_speaker_messages": ""},
        {"role_for_select_speaker_messages": None},
        {"select_speaker_transform_messages": "shorter"},
        {"select_speaker_transform_messages": MessageHistoryLimiter(1)},
        {"eligibility_policies": [object()]},
    ],
    ids=" ".join,
)
def test_what_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(GroupChatDeclarationError) as caught:
        GroupChat(agents(), **options)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "options",
    [
        {"max_retries_for_selecting_speaker": 0},
        {"max_round": 0},
        {"speaker_selection_method": "whatever"},
        {"speaker_transitions_type": "Allowed"},
        {"speaker_transitions_type": "DISALLOWED"},
        {"allow_repeat_speaker": []},
        {"select_speaker_prompt_template": None},
        {"select_speaker_transform_messages": TransformMessages()},
    ],
    ids=" ".join,
)
def test_what_is_accepted(options: dict[str, Any]) -> None:
    GroupChat(agents(), **options)


def test_an_empty_prompt_is_none() -> None:
    assert GroupChat(agents(), select_speaker_prompt_template="").select_speaker_prompt_template is None


def test_names_are_unique() -> None:
    with pytest.raises(ValueError, match="unique"):
        GroupChat(agents("aba"))


def test_transitions_and_repeats_exclude_each_other() -> None:
    a, b, c = agents()
    with pytest.raises(ValueError, match="exclude"):
        GroupChat(
            [a, b, c],
            allow_repeat_speaker=True,
            allowed_or_disallowed_speaker_transitions={a: [b]},
            speaker_transitions_type="allowed",
        )


def test_transitions_need_a_type() -> None:
    a, b, c = agents()
    with pytest.raises(ValueError, match="speaker_transitions_type"):
        GroupChat([a, b, c], allowed_or_disallowed_speaker_transitions={a: [b]})


# The graph


def graph(chat: GroupChat) -> dict[str, str]:
    return {
        agent.name: "".join(sorted(other.name for other in others))
        for agent, others in chat.allowed_speaker_transitions_dict.items()
    }


@pytest.mark.parametrize(
    ("repeats", "expected"),
    [
        (None, {"a": "abc", "b": "abc", "c": "abc"}),
        (True, {"a": "abc", "b": "abc", "c": "abc"}),
        (False, {"a": "bc", "b": "ac", "c": "ab"}),
        ([], {"a": "bc", "b": "ac", "c": "ab"}),
        ("b", {"a": "bc", "b": "abc", "c": "ab"}),
    ],
)
def test_without_transitions_the_graph_is_full(repeats: Any, expected: dict[str, str]) -> None:
    group = agents()
    if repeats == "b":
        repeats = [group[1]]
    assert graph(GroupChat(group, allow_repeat_speaker=repeats)) == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("allowed", {"a": "b", "b": "ac"}), ("Disallowed", {"a": "ac", "b": "b", "c": "abc"})],
)
def test_transitions(kind: str, expected: dict[str, str]) -> None:
    a, b, c = agents()
    chat = GroupChat(
        [a, b, c],
        allowed_or_disallowed_speaker_transitions={a: [b], b: [a, c]},
        speaker_transitions_type=kind,
    )
    assert graph(chat) == expected


@pytest.mark.parametrize("kind", ["allowed", "disallowed"])
@pytest.mark.parametrize("case", ["outside key", "outside value", "no list", "no agents"])
def test_transitions_name_agents_of_the_group(kind: str, case: str) -> None:
    a, b, c = agents()
    outside = an_agent("outside")
    given: Any = {
        "outside key": {outside: [a]},
        "outside value": {a: [outside]},
        "no list": {a: b},
        "no agents": {a: ["b"]},
    }[case]
    with pytest.raises(GroupChatDeclarationError) as caught:
        GroupChat([a, b, c], allowed_or_disallowed_speaker_transitions=given, speaker_transitions_type=kind)
    assert isinstance(caught.value, KeyError)  # what AG2 raises for "disallowed"
    assert isinstance(caught.value, ValueError)
    assert str(caught.value).startswith("Speaker transitions: ")


@pytest.mark.parametrize(
    ("transitions", "warning"),
    [
        ({"a": "b", "b": "a"}, "without speaker transitions"),
        ({"a": "bb", "b": "a", "c": "a"}, "twice"),
        ({"a": "b", "b": "a", "c": ""}, "isolated"),
    ],
)
def test_oddities_are_only_warned_of(
    transitions: dict[str, str], warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    group = {agent.name: agent for agent in agents()}
    given: Any = {group[name]: [group[other] for other in others] for name, others in transitions.items()}
    GroupChat(
        list(group.values()),
        allowed_or_disallowed_speaker_transitions=given,
        speaker_transitions_type="allowed",
    )
    assert warning in caplog.text


# The manager


@pytest.mark.parametrize("key", ["tools", "functions"])
def test_a_manager_offers_no_tools_to_its_model(key: str) -> None:
    with pytest.raises(ValueError, match="tools"):
        GroupChatManager(GroupChat(agents()), llm_config={"model": "m", key: [{"name": "f"}]})


def test_a_manager_takes_a_client() -> None:
    model = ReplayChatCompletionClient(["a"])
    manager = GroupChatManager(GroupChat(agents()), llm_config=model)
    assert manager.client is model
    assert manager.name == "chat_manager"


def test_there_are_three_modes_of_human_input() -> None:
    with pytest.raises(ValueError, match="human_input_mode"):
        ConversableAgent("a", human_input_mode="SOMETIMES")  # type: ignore[arg-type]
