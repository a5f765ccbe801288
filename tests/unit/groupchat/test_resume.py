"""Section 2.6 of the reference: going on with an earlier chat."""

from __future__ import annotations

import asyncio
import json
from copy import deepcopy
from typing import Any

import pytest

from callboard.groupchat import ConversableAgent, GroupChat, GroupChatManager
from callboard.models import ReplayChatCompletionClient
from tests.helpers.group_chats import Scripted, a_group, a_manager, said

ONE: dict[str, Any] = {"role": "user", "content": "one", "name": "a"}
TWO: dict[str, Any] = {"role": "user", "content": "two", "name": "b"}


@pytest.fixture(params=["sync", "async"])
def resume(request: pytest.FixtureRequest) -> Any:
    def call(manager: GroupChatManager, *arguments: Any, **options: Any) -> Any:
        if request.param == "sync":
            return manager.resume(*arguments, **options)
        return asyncio.run(manager.a_resume(*arguments, **options))

    return call


@pytest.mark.parametrize("as_text", [False, True])
def test_all_but_the_last_message_are_put_back(as_text: bool, resume: Any, stream: Scripted) -> None:
    given: Any = json.dumps([ONE, TWO]) if as_text else [deepcopy(ONE), deepcopy(TWO)]
    before = deepcopy(given)
    chat = a_group(messages=[{"role": "user", "content": "old", "name": "c"}], send_introductions=True)
    manager = a_manager(chat)
    last, message = resume(manager, given)
    assert (last, message) == (chat.agents[1], TWO)
    assert chat.messages == [ONE]
    for agent in chat.agents:
        assert isinstance(agent, ConversableAgent)
        assert said(agent.chat_messages[manager]) == [("a", "one")]
    assert [each["role"] for each in chat.agents[0].chat_messages[manager]] == ["assistant"]  # type: ignore[attr-defined]
    assert given == before
    assert chat.send_introductions is False
    assert stream.kinds == ["group_chat_resume"]


@pytest.mark.parametrize(
    ("clear", "expected"),
    [(False, [("a", "one"), ("b", "two"), ("c", "c")]), (True, [("b", "two"), ("c", "c")])],
)
def test_it_goes_on(clear: bool, expected: Any, resume: Any) -> None:
    chat = a_group(max_round=2)
    manager = a_manager(chat)
    last, message = resume(manager, [ONE, TWO], silent=True)
    last.initiate_chat(manager, message=message, clear_history=clear, silent=True)
    assert said(chat.messages) == expected


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([], "no messages"),
        ("[]", "no messages"),
        ([{**ONE, "name": "nobody"}], "nobody"),
        ("{not json", "no JSON"),
        ('{"a": 1}', "list"),
        ('"text"', "list"),
        ("[1]", "list"),
        (1, "list"),
        (["text"], "list"),
    ],
)
def test_what_can_t_be_resumed(messages: Any, error: str, resume: Any) -> None:
    with pytest.raises(ValueError, match=error):
        resume(a_manager(a_group()), messages)


@pytest.mark.parametrize("name", ["Admin", "chat_manager", None])
def test_admin_and_manager_may_have_spoken(name: str | None, resume: Any) -> None:
    manager = a_manager(a_group())
    message = {key: value for key, value in {**ONE, "name": name}.items() if value is not None}
    last, said_last = resume(manager, [message, message])
    assert last is manager
    assert said_last["name"] == name or "chat_manager"


@pytest.mark.parametrize(
    ("change", "content", "left"),
    [
        ("TERMINATE", "TERMINATE x TERMINATE", " x "),
        (str.lower, "TWO", "two"),
        (None, "TERMINATE", "TERMINATE"),
    ],
)
def test_the_last_message_may_be_changed(
    change: Any, content: str, left: str, resume: Any, caplog: pytest.LogCaptureFixture
) -> None:
    first = {**ONE, "content": content}
    _, message = resume(a_manager(a_group()), [first, {**TWO, "content": content}], change)
    assert message["content"] == left
    assert ("ends it again" in caplog.text) is (left == "TERMINATE")


def test_silent(resume: Any, stream: Scripted) -> None:
    resume(a_manager(a_group()), [ONE], silent=True)
    assert stream.events == []


def test_texts_and_messages() -> None:
    manager = a_manager(a_group())
    assert manager.messages_to_string([ONE, TWO]) == json.dumps([ONE, TWO])
    assert manager.messages_from_string(json.dumps([ONE, TWO])) == [ONE, TWO]
    with pytest.raises(ValueError, match="no JSON"):
        manager.messages_from_string("nothing")


def a_paid_chat(max_round: int) -> GroupChatManager:
    chat = a_group(speaker_selection_method="auto", max_round=max_round)
    return GroupChatManager(chat, llm_config=ReplayChatCompletionClient([], default="b"), silent=True)


async def test_a_saved_chat_goes_on_with_its_rounds_its_cost_and_its_variables() -> None:
    first = a_paid_chat(max_round=3)
    starter = first.groupchat.agents[0]
    assert isinstance(starter, ConversableAgent)
    starter.context_variables["topic"] = "ducks"
    await starter.a_initiate_chat(first, message="hi", silent=True)
    state = json.loads(json.dumps(await first.save_state()))

    second = a_paid_chat(max_round=5)
    last, message = await second.a_resume(json.dumps(state), silent=True)
    assert second.usage == first.usage
    assert second.groupchat.agents[0].context_variables.to_dict() == {"topic": "ducks"}  # type: ignore[attr-defined]
    result = await last.a_initiate_chat(second, message=message, clear_history=False, silent=True)
    assert said(second.groupchat.messages) == [("a", "hi"), *[("b", "b")] * 4]
    assert result.stop_reason == "Maximum rounds (5) reached"
    assert (await second.save_state())["rounds"] == 5


async def test_from_messages_alone_rounds_are_counted_anew(stream: Scripted) -> None:
    chat: GroupChat = a_group(max_round=2)
    manager = a_manager(chat)
    last, message = await manager.a_resume([ONE, TWO], silent=True)
    await last.a_initiate_chat(manager, message=message, clear_history=False, silent=True)
    assert len(chat.messages) == 3
