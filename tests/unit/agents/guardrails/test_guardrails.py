"""Guardrails of assistants: what each verdict does to a task, a call and an answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from callboard.agents import (
    AnswerGuardrail,
    Asks,
    AssistantAgent,
    CallGuardrail,
    Changed,
    Guardrail,
    Handoff,
    Judgement,
    Passed,
    Refused,
    TaskGuardrail,
)
from callboard.agents.errors import GuardrailError, UserInputError
from callboard.agents.guardrails import Decision, Verdict
from callboard.memory.llm_messages import FunctionCall
from callboard.messages import BaseChatMessage, StopMessage, StructuredMessage, TextMessage
from callboard.models import ReplayChatCompletionClient
from tests.unit.agents.assistant.talking import assistant, call, calls, prompts, remembered, said

AGAIN = "Nobody has seen this answer, because it was refused: {}\nWrite another one in its place."


class Tools:
    """A tool that says what it was given."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def pay(self, cents: int = 1) -> str:
        """Pays."""
        self.paid.append(cents)
        return f"paid {cents}"


def text(content: str) -> TextMessage:
    return TextMessage(content=content, source="user")


# Tasks


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (None, "yes"),
        (Passed(), "yes"),
        (Refused("not here"), "not here"),
    ],
)
async def test_a_task_is_passed_or_refused(verdict: Verdict[Any], expected: str) -> None:
    agent, model = assistant("yes", guardrails=[TaskGuardrail(lambda _: verdict)])
    result = await agent.run(task="go")
    assert result.messages[-1].to_text() == expected
    assert isinstance(result.messages[-1], TextMessage)
    if isinstance(verdict, Refused):
        assert model.create_calls == []
        assert await remembered(agent) == []


async def test_a_refused_task_may_stop_the_conversation() -> None:
    agent, _ = assistant(guardrails=[TaskGuardrail(lambda _: Refused("over", stops=True))])
    assert await said(agent) == [("StopMessage", "over"), ("result", 1)]
    assert StopMessage in agent.produced_message_types


async def test_a_task_is_changed_by_one_guardrail_after_the_other() -> None:
    def louder(task: Sequence[BaseChatMessage]) -> Verdict[Sequence[BaseChatMessage]]:
        return Changed([text(message.to_text() + "!") for message in task])

    async def longer(task: Sequence[BaseChatMessage]) -> Verdict[Sequence[BaseChatMessage]]:
        return Changed([*task, text("please")])

    agent, model = assistant(
        "yes", guardrails=[TaskGuardrail(louder), TaskGuardrail(longer)], system_message=None
    )
    await agent.run(task="go")
    assert prompts(model)[0] == [("UserMessage", "go!"), ("UserMessage", "please")]


async def test_where_nothing_is_new_no_task_is_checked() -> None:
    agent, _ = assistant("yes", guardrails=[TaskGuardrail(lambda _: Refused("no"))])
    assert (await agent.run()).messages[-1].to_text() == "yes"


# Calls


def only_small(asked: FunctionCall) -> Verdict[FunctionCall]:
    return Refused("too much") if "9" in asked.arguments else None


def cheaper(asked: FunctionCall) -> Verdict[FunctionCall]:
    return Changed(FunctionCall("another id", '{"cents": 2}', asked.name))


@pytest.mark.parametrize(
    ("check", "results", "paid"),
    [
        (only_small, ("paid 1", "!Refused: too much"), [1]),
        (cheaper, ("paid 2", "paid 2"), [2, 2]),
        (lambda _: Refused("no"), ("!Refused: no", "!Refused: no"), []),
    ],
)
async def test_calls(check: Callable[[FunctionCall], Verdict[FunctionCall]], results: Any, paid: Any) -> None:
    tools = Tools()
    asked = [call("pay", id="a"), call("pay", '{"cents": 9}', "b")]
    agent, _ = assistant(asked, tools=[tools.pay], guardrails=[CallGuardrail(check)])
    happened = await said(agent)
    assert happened[1] == ("results", *results)
    assert tools.paid == paid
    messages = await agent.model_context.get_messages()
    assert [one.call_id for one in messages[-1].content] == ["a", "b"]  # type: ignore[union-attr]


@pytest.mark.parametrize("written", ['{"cents": "200"}', '{"cents": 200.0}', '{"cents": 200}'])
async def test_a_guardrail_judges_what_runs(written: str) -> None:
    def is_little(call: FunctionCall) -> Verdict[FunctionCall]:
        cents = json.loads(call.arguments)["cents"]
        return Refused("too much") if isinstance(cents, int) and cents > 100 else None

    for checks in ([is_little], [lambda call: Changed(replace(call, arguments=written)), is_little]):
        tools = Tools()
        first = FunctionCall("1", written if len(checks) == 1 else "{}", "pay")
        agent, _ = assistant(
            [first], "done", tools=[tools.pay], guardrails=[CallGuardrail(check) for check in checks]
        )
        await agent.run(task="go")
        assert tools.paid == []


async def test_a_call_that_passes_stays_as_the_model_wrote_it() -> None:
    tools = Tools()
    agent, _ = assistant(
        [FunctionCall("1", '{ "cents":"7" }', "pay")],
        "done",
        tools=[tools.pay],
        guardrails=[CallGuardrail(lambda call: None)],
    )
    result = await agent.run(task="go")
    assert tools.paid == [7]
    assert '{ "cents":"7" }' in str(result.messages)


async def test_calls_of_some_tools() -> None:
    tools = Tools()
    check = CallGuardrail(lambda _: Refused("no"), tools=["other"])
    agent, _ = assistant(calls("pay"), tools=[tools.pay], guardrails=[check])
    await agent.run(task="go")
    assert tools.paid == [1]


async def test_a_handoff_that_is_refused_is_not_made() -> None:
    agent, _ = assistant(
        calls("transfer_to_bob", "transfer_to_eve"),
        handoffs=["bob", Handoff(target="eve")],
        guardrails=[CallGuardrail(lambda _: Refused("he is busy"), tools=["transfer_to_bob"])],
    )
    happened = await said(agent)
    assert happened[1][1] == "!Refused: he is busy"
    assert happened[2][0] == "HandoffMessage"
    assert "eve" in happened[2][1]


async def test_the_model_reads_why_and_goes_on() -> None:
    agent, model = assistant(
        calls("pay"),
        "I could not pay",
        tools=[Tools().pay],
        max_tool_iterations=2,
        guardrails=[CallGuardrail(lambda _: Refused("no"))],
    )
    assert (await said(agent))[2] == ("TextMessage", "I could not pay")
    assert len(model.create_calls) == 2


# Answers


def no_numbers(answer: BaseChatMessage) -> Verdict[BaseChatMessage]:
    return Refused("numbers") if any(map(str.isdigit, answer.to_text())) else None


async def test_a_refused_answer_is_written_again() -> None:
    agent, model = assistant(
        "42", "43", "many", "next", guardrails=[AnswerGuardrail(no_numbers)], system_message=None
    )
    assert await said(agent) == [("TextMessage", "many"), ("result", 1)]
    assert prompts(model)[2] == [
        ("UserMessage", "go"),
        ("AssistantMessage", "42"),
        ("UserMessage", AGAIN.format("numbers")),
        ("AssistantMessage", "43"),
        ("UserMessage", AGAIN.format("numbers")),
    ]
    assert await remembered(agent) == [("UserMessage", "go"), ("AssistantMessage", "many")]


async def test_answers_are_written_again_only_so_often() -> None:
    agent, model = assistant("1", "2", "3", guardrails=[AnswerGuardrail(no_numbers)], max_answer_refusals=1)
    assert await said(agent) == [("TextMessage", "I have no answer that I may give: numbers"), ("result", 1)]
    assert len(model.create_calls) == 2
    assert (await remembered(agent))[-1] == ("AssistantMessage", "I have no answer that I may give: numbers")


async def test_an_answer_is_changed() -> None:
    check = AnswerGuardrail(lambda answer: Changed(text(f"{answer.to_text()}, sir")))
    agent, _ = assistant("yes", guardrails=[check])
    assert (await said(agent))[0] == ("TextMessage", "yes, sir")
    assert (await remembered(agent))[-1] == ("AssistantMessage", "yes, sir")


async def test_a_summary_is_an_answer_which_the_model_puts_into_other_words() -> None:
    agent, model = assistant(
        calls("pay"), "paid a little", tools=[Tools().pay], guardrails=[AnswerGuardrail(no_numbers)]
    )
    assert (await said(agent))[2] == ("TextMessage", "paid a little")
    assert prompts(model)[1][-2:] == [
        ("AssistantMessage", "paid 1"),
        ("UserMessage", AGAIN.format("numbers")),
    ]


@pytest.mark.parametrize(
    ("guardrails", "pieces"), [([AnswerGuardrail(no_numbers)], 0), ([TaskGuardrail(lambda _: None)], 2)]
)
async def test_pieces_of_answers_that_are_checked_are_not_shown(
    guardrails: list[Guardrail], pieces: int
) -> None:
    agent, _ = assistant("so many", guardrails=guardrails, model_client_stream=True)
    assert [kind for kind, _ in await said(agent)] == [*["piece"] * pieces, "TextMessage", "result"]


class GuardedSum(BaseModel):
    total: int


async def test_structured_answers_are_checked() -> None:
    def small(answer: BaseChatMessage) -> Verdict[BaseChatMessage]:
        assert isinstance(answer, StructuredMessage)
        return Refused("too much") if answer.content.total > 5 else None

    agent, _ = assistant(
        '{"total": 9}', '{"total": 1}', output_content_type=GuardedSum, guardrails=[AnswerGuardrail(small)]
    )
    message = (await agent.run(task="go")).messages[-1]
    assert isinstance(message, StructuredMessage)
    assert message.content == GuardedSum(total=1)


# Who checks


class Everything(Guardrail):
    """Remembers what it is shown."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def check_task(self, task: Sequence[BaseChatMessage]) -> Verdict[Sequence[BaseChatMessage]]:
        self.seen.append("task")
        return None

    async def check_call(self, call: FunctionCall) -> Verdict[FunctionCall]:
        self.seen.append(call.name)
        return None

    async def check_answer(self, answer: BaseChatMessage) -> Verdict[BaseChatMessage]:
        self.seen.append(answer.to_text())
        return None


async def test_a_class_checks_all_three() -> None:
    guardrail = Everything()
    agent, _ = assistant(
        calls("pay"), "done", tools=[Tools().pay], guardrails=[guardrail], max_tool_iterations=2
    )
    await agent.run(task="go")
    assert guardrail.seen == ["task", "pay", "done"]
    assert guardrail.checks_answers


def judge(*answers: str, **settings: Any) -> tuple[AssistantAgent, ReplayChatCompletionClient]:
    model = ReplayChatCompletionClient(answers)
    return AssistantAgent("judge", model, system_message=None, **settings), model


@pytest.mark.parametrize(
    ("answer", "settings", "expected"),
    [
        ("PASS", {}, "yes"),
        ("Pass.", {}, "yes"),
        ("REFUSE: rude", {}, "rude"),
        ("refuse: rude: very", {}, "rude: very"),
        ('{"passes": true}', {"output_content_type": Judgement}, "yes"),
        ('{"passes": false, "reason": "rude"}', {"output_content_type": Judgement}, "rude"),
    ],
)
async def test_an_agent_checks(answer: str, settings: dict[str, Any], expected: str) -> None:
    checker, model = judge(answer, **settings)
    agent, _ = assistant("yes", guardrails=[TaskGuardrail(checker)])
    assert (await agent.run(task="go away")).messages[-1].to_text() == expected
    assert "task below" in str(prompts(model)[0])
    assert "go away" in str(prompts(model)[0])


async def test_each_check_of_an_agent_is_a_conversation_of_its_own() -> None:
    checker, model = judge("PASS", "PASS")
    agent, _ = assistant("one", "two", guardrails=[TaskGuardrail(checker)])
    await agent.run(task="first")
    await agent.run(task="second")
    assert [len(prompt) for prompt in prompts(model)] == [1, 1]


async def test_agents_check_calls_and_answers() -> None:
    checker, model = judge("PASS", "REFUSE: numbers", "PASS")
    agent, _ = assistant(
        calls("pay"),
        "paid a little",
        tools=[Tools().pay],
        guardrails=[CallGuardrail(checker), AnswerGuardrail(checker)],
    )
    assert (await agent.run(task="go")).messages[-1].to_text() == "paid a little"
    shown = [str(prompt) for prompt in prompts(model)]
    assert "call of a tool below" in shown[0]
    assert 'pay({"cents": 1})' in shown[0]
    assert "answer below" in shown[1]
    assert "paid 1" in shown[1]


@pytest.mark.parametrize(
    ("check", "said"), [(judge("maybe")[0], "none of PASS"), (lambda _: True, "returned a bool")]
)
async def test_a_verdict_that_is_none_is_an_error(check: Any, said: str) -> None:
    agent, _ = assistant("yes", guardrails=[TaskGuardrail(check)])
    with pytest.raises(GuardrailError, match=said):
        await agent.run(task="go")


# Asking a person


class Asked(AssistantAgent):
    """Has somebody who decides."""

    decision: Decision = Passed()
    questions: Sequence[str] = ()

    async def on_guardrail_asks(self, asks: Asks) -> Decision:
        self.questions = [*self.questions, asks.question]
        return self.decision


@pytest.mark.parametrize(
    ("decision", "result"),
    [(Passed(), "paid 1"), (Refused("the boss says no"), "!Refused: the boss says no")],
)
async def test_a_person_decides(decision: Decision, result: str) -> None:
    model = ReplayChatCompletionClient([calls("pay")])
    check = CallGuardrail(lambda asked: Asks(f"May it {asked.name}?"))
    agent = Asked("ada", model, tools=[Tools().pay], guardrails=[check])
    agent.decision = decision
    assert (await said(agent))[1] == ("results", result)
    assert agent.questions == ["May it pay?"]


async def test_where_nobody_can_be_asked_it_is_an_error() -> None:
    agent, _ = assistant("yes", guardrails=[TaskGuardrail(lambda _: Asks("May it?"))])
    with pytest.raises(UserInputError, match="asks: May it"):
        await agent.run(task="go")
    assert await remembered(agent) == []
