"""Section 2.4 of the reference: how a group chat is run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from callboard.groupchat import ChatResult, ConversableAgent, GroupChat, GroupChatManager
from callboard.models import ReplayChatCompletionClient
from tests.helpers.chat import Echo
from tests.helpers.group_chats import Scripted, a_group, a_manager, agents, an_agent, said

Chat = Callable[..., ChatResult]


@pytest.fixture(params=["sync", "async"])
def chat_with(request: pytest.FixtureRequest) -> Chat:
    """Begins a chat, in both ways."""

    def begin(agent: ConversableAgent, manager: GroupChatManager, message: Any, **options: Any) -> ChatResult:
        if request.param == "sync":
            return agent.initiate_chat(manager, message=message, silent=True, **options)
        return asyncio.run(agent.a_initiate_chat(manager, message=message, silent=True, **options))

    return begin


def of(*members: ConversableAgent, **options: Any) -> GroupChat:
    return GroupChat(list(members), **{"speaker_selection_method": "round_robin", **options})


@pytest.mark.parametrize(
    ("max_round", "spoken"),
    [(0, []), (1, ["hi"]), (2, ["hi", "b"]), (5, ["hi", "b", "c", "a", "b"])],
)
def test_the_last_round(max_round: int, spoken: list[str], chat_with: Chat, stream: Scripted) -> None:
    chat = a_group(max_round=max_round)
    result = chat_with(chat.agents[0], a_manager(chat), "hi")
    assert [message["content"] for message in chat.messages] == spoken
    reasons = [event.termination_reason for event in stream.only("termination")]
    assert reasons == ([f"Maximum rounds ({max_round}) reached"] if max_round else [])
    assert result.stop_reason == (reasons[0] if reasons else None)


def test_a_termination_message_reaches_everybody(chat_with: Chat, stream: Scripted) -> None:
    a, b, c = an_agent("a"), an_agent("b", "TERMINATE"), an_agent("c")
    manager = a_manager(of(a, b, c))
    chat_with(a, manager, "hi")
    assert [said(agent.chat_messages[manager]) for agent in (a, b, c)] == [
        [("a", "hi"), ("b", "TERMINATE")]
    ] * 3
    assert stream.events[-1].termination_reason == (  # type: ignore[attr-defined]
        "Termination message condition on the GroupChatManager 'chat_manager' met"
    )


def test_the_first_message_may_be_the_last(chat_with: Chat) -> None:
    chat = a_group()
    chat_with(chat.agents[0], a_manager(chat), "TERMINATE")
    assert said(chat.messages) == [("a", "TERMINATE")]


def test_a_condition_of_ones_own_sees_the_group(chat_with: Chat) -> None:
    chat = a_group()
    manager = a_manager(chat, is_termination_msg=lambda message: len(chat.messages) == 3)
    chat_with(chat.agents[0], manager, "hi")
    assert said(chat.messages) == [("a", "hi"), ("b", "b"), ("c", "c")]


def test_nobody_may_speak(chat_with: Chat, stream: Scripted) -> None:
    chat = a_group(speaker_selection_method=lambda last, chat: None)
    chat_with(chat.agents[0], a_manager(chat), "hi")
    assert said(chat.messages) == [("a", "hi")]
    assert stream.only("termination")[0].termination_reason == "No next speaker selected"


def test_no_reply(chat_with: Chat, stream: Scripted) -> None:
    chat = of(an_agent("a"), an_agent("b", None), an_agent("c"))
    chat_with(chat.agents[0], a_manager(chat), "hi")
    assert said(chat.messages) == [("a", "hi")]
    assert stream.only("termination")[0].termination_reason == "No reply generated"


@pytest.mark.parametrize("admin", ["Admin", "boss"])
def test_an_admin_speaks_after_an_interrupt(admin: str, chat_with: Chat) -> None:
    a, b, boss = an_agent("a"), an_agent("b", KeyboardInterrupt()), an_agent(admin, "stop")
    chat = of(a, b, boss, admin_name=admin, max_round=2)
    chat_with(a, a_manager(chat), "hi")
    assert said(chat.messages) == [("a", "hi"), (admin, "stop")]


def test_an_interrupt_without_an_admin_is_raised(chat_with: Chat) -> None:
    chat = of(an_agent("a"), an_agent("b", KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        chat_with(chat.agents[0], a_manager(chat), "hi")
    assert said(chat.messages) == [("a", "hi")]


def test_an_interrupt_while_a_speaker_is_chosen(chat_with: Chat) -> None:
    def interrupted(last: Any, chat: Any) -> Any:
        raise KeyboardInterrupt

    chat = of(an_agent("a"), an_agent("Admin", "TERMINATE"), speaker_selection_method=interrupted)
    chat_with(chat.agents[0], a_manager(chat), "hi")
    assert said(chat.messages) == [("a", "hi"), ("Admin", "TERMINATE")]


@pytest.mark.parametrize("where", ["reply", "selection"])
def test_other_errors_are_raised_and_the_messages_remain(where: str, chat_with: Chat) -> None:
    def refuse(last: Any, chat: Any) -> Any:
        if last.name == "b":
            raise LookupError("no")
        return "round_robin"

    third = an_agent("c", *([LookupError("no")] if where == "reply" else []))
    options = {"speaker_selection_method": refuse} if where == "selection" else {}
    chat = of(an_agent("a"), an_agent("b"), third, **options)
    with pytest.raises(LookupError, match="no"):
        chat_with(chat.agents[0], a_manager(chat), "hi")
    assert said(chat.messages) == [("a", "hi"), ("b", "b")]


def test_a_starter_from_outside(chat_with: Chat) -> None:
    chat = a_group(max_round=4)
    chat_with(an_agent("outside"), a_manager(chat), "hi")
    assert said(chat.messages) == [("outside", "hi"), ("a", "a"), ("b", "b"), ("c", "c")]


def test_introductions_are_for_everybody_and_not_for_the_group(chat_with: Chat) -> None:
    chat = a_group(max_round=2, send_introductions=True)
    manager = a_manager(chat)
    chat_with(chat.agents[0], manager, "hi")
    assert said(chat.messages) == [("a", "hi"), ("b", "b")]
    for agent in chat.agents:
        assert isinstance(agent, ConversableAgent)
        assert ("chat_manager", chat.introductions_msg()) in said(agent.chat_messages[manager])


def test_everybody_hears_each_message_at_once(chat_with: Chat) -> None:
    chat = a_group(max_round=3)
    manager, heard = a_manager(chat), []

    def note(last: Any, chat: GroupChat) -> str:
        heard.append([len(agent.chat_messages[manager]) for agent in chat.agents])  # type: ignore[attr-defined]
        return "round_robin"

    chat.speaker_selection_method = note
    chat_with(chat.agents[0], manager, "hi")
    assert heard == [[1, 1, 1], [2, 2, 2]]
    assert manager.last_speaker is chat.agents[2]


@pytest.mark.parametrize(("clear", "texts"), [(True, ["more", "b"]), (False, ["hi", "b", "more", "b"])])
def test_a_second_chat_forgets_the_first_unless_told_otherwise(
    clear: bool, texts: list[str], chat_with: Chat
) -> None:
    chat = a_group(max_round=2)
    manager = a_manager(chat)
    chat_with(chat.agents[0], manager, "hi")
    chat_with(chat.agents[0], manager, "more", clear_history=clear)
    assert [message["content"] for message in chat.messages] == texts
    assert [message["content"] for message in chat.agents[2].chat_messages[manager]] == texts  # type: ignore[attr-defined]


def test_run_chat_itself(stream: Scripted) -> None:
    chat = a_group(max_round=3)
    manager = a_manager(chat)
    given = [{"role": "user", "content": "not this"}, {"role": "user", "content": "hi"}]
    assert manager.run_chat(given, chat.agents[1], chat) == (True, None)
    assert said(chat.messages) == [("b", "hi"), ("c", "c"), ("a", "a")]
    assert manager.chat_messages_for_summary(chat.agents[0]) is chat.messages
    assert stream.kinds.count("group_chat_run_chat") == 2


def test_what_models_used_is_in_the_result(chat_with: Chat) -> None:
    writer = ConversableAgent(
        "writer", human_input_mode="NEVER", llm_config=ReplayChatCompletionClient(["one two"], model="small")
    )
    chat = GroupChat([an_agent("a"), writer], allow_repeat_speaker=True, max_round=2)
    result = chat_with(chat.agents[0], a_manager(chat, "?", "writer"), "hi")
    cost = result.cost["usage_including_cached_inference"]
    assert (cost["small"]["completion_tokens"], cost["replay"]["completion_tokens"]) == (2, 2)
    assert result.summary == "one two"


def test_chat_agents_without_histories_can_be_members(chat_with: Chat) -> None:
    chat = GroupChat([an_agent("a"), Echo("e")], speaker_selection_method="round_robin", max_round=4)
    chat_with(chat.agents[0], a_manager(chat), "hi")
    assert said(chat.messages) == [("a", "hi"), ("e", "e1:hi"), ("a", "a"), ("e", "e2:a")]


def test_tools_are_executed_by_whoever_has_them(chat_with: Chat) -> None:
    async def add(x: int, y: int) -> int:
        return x + y

    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"x": 1, "y": 2}'}}
    asks = an_agent("asks", {"content": "", "tool_calls": [call]}, "TERMINATE")
    does = ConversableAgent("does", human_input_mode="NEVER", function_map={"add": add})
    chat = of(an_agent("a"), asks, an_agent("other"), does, max_round=5)
    chat_with(chat.agents[0], a_manager(chat), "hi")
    answer = chat.messages[2]
    assert (answer["name"], answer["role"], answer["content"]) == ("does", "tool", "3")
    assert answer["tool_responses"][0]["tool_call_id"] == "1"


async def test_a_chat_in_a_chat() -> None:
    outer, inner = a_group("ab", max_round=2), a_group("xy", max_round=2)
    helper = agents("h")[0]

    def ask_others(last: Any, chat: GroupChat) -> str:
        helper.initiate_chat(a_manager(inner, name="inner"), message="go", silent=True)
        return "round_robin"

    outer.speaker_selection_method = ask_others
    await outer.agents[0].a_initiate_chat(a_manager(outer), message="hi", silent=True)  # type: ignore[attr-defined]
    assert said(inner.messages) == [("h", "go"), ("x", "x")]
    assert said(outer.messages) == [("a", "hi"), ("b", "b")]
