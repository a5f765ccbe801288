"""Agents that chat with each other. What they say was compared with AG2 0.14."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.agents import TaskResult
from callboard.core.cancellation import CancellationToken
from callboard.groupchat import (
    ConversableAgent,
    ConversationMessage,
    GroupChatDeclarationError,
    MessageHistoryLimiter,
    TransformMessages,
)
from callboard.memory.llm_messages import FunctionCall
from callboard.messages import StopMessage, TextMessage
from callboard.models import ReplayChatCompletionClient, SystemMessage, UserMessage
from tests.helpers.group_chats import Scripted, an_agent, said


def plain(name: str, reply: str = "auto", **options: Any) -> ConversableAgent:
    return ConversableAgent(name, **{"human_input_mode": "NEVER", "default_auto_reply": reply, **options})


def contents(agent: ConversableAgent, other: ConversableAgent) -> list[Any]:
    return [message["content"] for message in agent.chat_messages[other]]


def test_two_agents_talk_until_one_ends_it(stream: Scripted) -> None:
    a, b = an_agent("a", "one", "TERMINATE"), plain("b", "ok")
    result = a.initiate_chat(b, message="hi", silent=True)
    assert said(result.chat_history) == [
        ("a", "hi"),
        ("b", "ok"),
        ("a", "one"),
        ("b", "ok"),
        ("a", "TERMINATE"),
    ]
    assert [message["role"] for message in a.chat_messages[b]] == ["assistant", "user"] * 2 + ["assistant"]
    assert [message["role"] for message in b.chat_messages[a]] == ["user", "assistant"] * 2 + ["user"]
    assert result.summary == ""
    assert stream.events[-1].termination_reason == "Termination message condition on agent 'b' met"  # type: ignore[attr-defined]


def test_automatic_replies_have_a_limit() -> None:
    a, b = plain("a", "yes", max_consecutive_auto_reply=2), plain("b", "no")
    a.initiate_chat(b, message="hi", silent=True)
    assert contents(a, b) == ["hi", "no", "yes", "no", "yes", "no"]


@pytest.mark.parametrize(("turns", "expected"), [(1, ["hi", "no"]), (2, ["hi", "no", "yes", "no"])])
async def test_turns_have_a_limit(turns: int, expected: list[str]) -> None:
    a, b = plain("a", "yes"), plain("b", "no")
    await a.a_initiate_chat(b, message="hi", max_turns=turns, silent=True)
    assert contents(a, b) == expected


@pytest.mark.parametrize(
    ("mode", "answers", "expected"),
    [
        ("ALWAYS", ["exit"], ["hi"]),
        ("ALWAYS", ["", "exit"], ["hi", "auto", "q1"]),
        ("ALWAYS", ["well", "", "exit"], ["hi", "well", "q1", "auto", "TERMINATE"]),
        ("TERMINATE", ["exit"], ["hi", "auto", "q1", "auto", "TERMINATE"]),
        ("TERMINATE", [""], ["hi", "auto", "q1", "auto", "TERMINATE"]),
        (
            "TERMINATE",
            ["more", ""],
            ["hi", "auto", "q1", "auto", "TERMINATE", "more", "q2", "auto", "TERMINATE"],
        ),
    ],
)
def test_a_person_behind_an_agent(
    mode: Any, answers: list[str], expected: list[str], stream: Scripted
) -> None:
    stream.answers = list(answers)
    a = an_agent("a", "q1", "TERMINATE", "q2", "TERMINATE")
    b = plain("b", human_input_mode=mode, max_consecutive_auto_reply=2)
    a.initiate_chat(b, message="hi", silent=True)
    assert contents(a, b) == expected
    assert not stream.answers
    assert b.human_inputs == answers


def test_a_person_interrupts_calls(stream: Scripted) -> None:
    stream.answers = ["wait", "exit"]
    call = {"id": "7", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    a, b = an_agent("a"), plain("b", human_input_mode="ALWAYS", function_map={"add": print})
    a.initiate_chat(b, message={"content": "", "tool_calls": [call]}, silent=True)
    response = {"role": "tool", "tool_call_id": "7", "content": "USER INTERRUPTED"}
    assert a.chat_messages[b][1] == {
        "content": "wait",
        "role": "user",
        "name": "b",
        "tool_responses": [response],
    }


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("hi", "hi"),
        ({"content": "hi"}, "hi"),
        (lambda sender, recipient, context: f"{sender.name}-{recipient.name}-{context['k']}", "a-b-3"),
        (None, "typed"),
    ],
)
def test_the_first_message(message: Any, expected: str, stream: Scripted) -> None:
    stream.answers = ["typed"]
    a, b = plain("a"), plain("b")
    a.initiate_chat(b, message=message, k=3, max_turns=1, silent=True)
    assert contents(a, b)[0] == expected


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("last_msg", "done "),
        (None, ""),
        (lambda sender, recipient, arguments: arguments["x"], "y"),
        ("reflection_with_llm", "a short summary"),
    ],
)
def test_summaries(method: Any, expected: str) -> None:
    model = ReplayChatCompletionClient(["a short summary"])
    a = an_agent("a", llm_config=model)
    b = plain("b", "done TERMINATE")
    result = a.initiate_chat(
        b, message="hi", max_turns=1, summary_method=method, summary_args={"x": "y"}, silent=True
    )
    assert result.summary == expected


def test_a_second_chat_goes_on_when_told() -> None:
    a, b = plain("a"), plain("b")
    for clear in (True, False):
        a.initiate_chat(b, message="hi", max_turns=1, clear_history=clear, silent=True)
    assert contents(b, a) == ["hi", "auto"] * 2


# Answers


async def test_a_model_answers_and_calls_functions() -> None:
    calls = [
        FunctionCall("1", '{"x": 2}', "double"),
        FunctionCall("2", "no json", "double"),
        FunctionCall("3", "{}", "other"),
    ]
    model = ReplayChatCompletionClient([calls, "It is 4."])
    asks = ConversableAgent("asks", "Be short.", human_input_mode="NEVER", llm_config=model)
    does = plain("does")

    @does.register_for_execution()
    @asks.register_for_llm(description="Doubles a number.")
    async def double(x: int) -> int:
        return 2 * x

    await does.a_initiate_chat(asks, message="2 * 2?", max_turns=2, silent=True)
    first, second = model.create_calls
    assert first["messages"] == [
        SystemMessage(content="Be short."),
        UserMessage(content="2 * 2?", source="does"),
    ]
    assert [tool.name for tool in first["tools"]] == ["double"]
    results = second["messages"][3].content
    assert [(result.call_id, result.content.split(":")[0]) for result in results] == [
        ("1", "4"),
        ("2", "Error"),
        ("3", "Error"),
    ]
    assert contents(does, asks)[-1] == "It is 4."
    assert asks.usage.paid or asks.usage.cached


async def test_transforms_change_what_a_model_reads() -> None:
    model = ReplayChatCompletionClient([], default="ok")
    agent = ConversableAgent("a", human_input_mode="NEVER", llm_config=model)
    agent.transforms = TransformMessages([MessageHistoryLimiter(1)])
    await agent.a_generate_reply([{"role": "user", "content": text} for text in ("one", "two")])
    assert [message.content for message in model.create_calls[0]["messages"][1:]] == ["two"]


async def test_who_is_asked_for_an_answer() -> None:
    def reply(text: Any, is_final: bool = True) -> Any:
        return lambda agent, messages, sender, config: (is_final, f"{text}{config or ''}")

    a, b, c = plain("a"), plain("b"), plain("c")
    a.register_reply(b, reply("to b", is_final=False))
    a.register_reply("b", reply("by name"), position=1)
    a.register_reply([lambda sender: sender.name == "c"], reply("to c"), config="!")
    answers = [
        await a.a_generate_reply([{"role": "user", "content": "hi"}], sender) for sender in (b, c, None)
    ]
    assert answers == ["by name", "to c!", "auto"]
    a.register_reply([ConversableAgent, None], reply("only"), remove_other_reply_funcs=True)
    assert await a.a_generate_reply([], None) == "only"
    with pytest.raises(GroupChatDeclarationError, match="trigger"):
        a.register_reply(1, reply("never"))


# Sending


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("hi", {"content": "hi", "role": "user", "name": "a"}),
        ({"content": "hi", "name": "z", "extra": 1}, {"content": "hi", "role": "user", "name": "z"}),
        ({"content": "3", "role": "tool"}, {"content": "3", "role": "tool", "name": "a"}),
        ({"content": "x", "override_role": "system"}, {"content": "x", "role": "system", "name": "a"}),
        (
            {"function_call": {"name": "f"}},
            {"content": None, "function_call": {"name": "f"}, "role": "assistant", "name": "a"},
        ),
    ],
)
def test_what_an_agent_keeps(message: Any, kept: dict[str, Any]) -> None:
    a, b = plain("a"), plain("b")
    a.send(message, b, request_reply=False)
    assert b.chat_messages[a] == [kept]
    assert b.last_message() == b.last_message(a) == kept


def test_nothing_can_t_be_sent() -> None:
    with pytest.raises(GroupChatDeclarationError, match="neither a content nor a call"):
        plain("a").send({"role": "user"}, plain("b"))


def test_last_messages() -> None:
    a, b, c = plain("a"), plain("b"), plain("c")
    assert a.last_message() is None
    for other in (b, c):
        a.send("hi", other, request_reply=False, silent=True)
    with pytest.raises(GroupChatDeclarationError, match="several"):
        a.last_message()
    with pytest.raises(GroupChatDeclarationError, match="no conversation"):
        b.last_message(c)


def test_clearing() -> None:
    a, b, c = plain("a"), plain("b"), plain("c")
    for other in (b, b, b, c):
        a.send("hi", other, request_reply=False, silent=True)
    a.clear_history(b, nr_messages_to_preserve=2)
    assert [len(a.chat_messages[other]) for other in (b, c)] == [2, 1]
    a.clear_history()
    assert [len(a.chat_messages[other]) for other in (b, c)] == [0, 0]


def test_functions() -> None:
    agent = plain("a", function_map={"f": print})
    assert agent.can_execute_function("f")
    assert not agent.can_execute_function(["f", "g"])
    agent.register_function({"g": print, "f": None})
    assert list(agent.function_map) == ["g"]


def test_code_blocks_are_for_another_agent() -> None:
    assert plain("a", code_execution_config=False).description == "You are a helpful AI assistant."
    with pytest.raises(GroupChatDeclarationError, match="CodeExecutorAgent"):
        plain("a", code_execution_config={"work_dir": "x"})


# As a chat agent


async def test_it_runs_alone_and_its_state_goes_elsewhere() -> None:
    def agent() -> ConversableAgent:
        model = ReplayChatCompletionClient([], default=lambda messages: f"{len(messages)}")
        return ConversableAgent("a", human_input_mode="NEVER", llm_config=model)

    first, second = agent(), agent()
    result: TaskResult = await first.run(task="hi")
    task, answer = result.messages
    assert isinstance(task, TextMessage)
    assert isinstance(answer, ConversationMessage)
    await second.load_state(await first.save_state())
    again = await second.run(task="more")
    assert again.messages[-1].to_text() == "4"
    assert second.auto_replies.count(second.member.group) == 2
    await second.on_reset(CancellationToken())
    assert (await second.run(task="hi")).messages[-1].to_text() == "2"


async def test_without_an_answer_it_stops() -> None:
    result = await an_agent("a", None).run(task="hi")
    assert isinstance(result.messages[-1], StopMessage)
    assert result.messages[-1].content == "No reply generated"
