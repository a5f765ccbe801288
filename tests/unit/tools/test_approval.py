"""Calls that a person has to allow: what is shown, what is taken for an answer, and what runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from callboard.core.people import Question, asking_by
from callboard.errors import CannotAskError, InputWithdrawnError
from callboard.memory.llm_messages import FunctionCall
from callboard.tools import Approval, ApprovalRule, FunctionTool, StaticWorkbench, run_tools, tool
from callboard.tools.approval import NeedsApproval
from callboard.tools.errors import ToolDeclarationError
from callboard.tools.workbench import Workbench


class Desk:
    """A tool that pays back, and people who are asked for it."""

    def __init__(self, needs_approval: NeedsApproval = True) -> None:
        self.paid: list[int] = []
        self.asked: list[Question] = []
        self.answer: Any = "yes"
        self.workbench = StaticWorkbench([FunctionTool(self.refund, needs_approval=needs_approval)])

    async def refund(self, cents: int) -> str:
        """Pays back."""
        self.paid.append(cents)
        return f"paid {cents}"

    def ask(self, question: Question) -> Any:
        self.asked.append(question)
        return self.answer

    async def run(self, *arguments: str, workbench: Workbench | None = None, **options: Any) -> list[str]:
        calls = [FunctionCall(str(number), text, "refund") for number, text in enumerate(arguments)]
        with asking_by(self.ask):
            results = await run_tools(calls, workbench or self.workbench, **options)
        return [result.content for result in results]


@pytest.mark.parametrize(
    ("said", "approval"),
    [
        ("yes", Approval(approved=True)),
        (" Y ", Approval(approved=True)),
        (True, Approval(approved=True)),
        ("no", Approval(approved=False)),
        ("No: too much", Approval(approved=False, reason="too much")),
        ('{"cents": 5}', Approval(approved=True, arguments={"cents": 5})),
        ({"approved": False, "reason": "late"}, Approval(approved=False, reason="late")),
    ],
)
def test_what_people_may_say(said: Any, approval: Approval) -> None:
    assert Approval.model_validate(said) == approval


@pytest.mark.parametrize(
    "said", ["maybe", "", "[1]", "17", 17, None, {"approve": True}, {"approved": True, "x": 1}]
)
def test_anything_else_is_no_answer(said: Any) -> None:
    with pytest.raises(ValidationError):
        Approval.model_validate(said)


async def test_a_person_sees_the_call_and_what_was_seen_runs() -> None:
    desk = Desk()
    assert await desk.run('{"cents": 17}') == ["paid 17"]
    (question,) = desk.asked
    assert question.text == 'May refund be called with {"cents": 17}?'
    assert question.details == {"kind": "tool_approval", "tool": "refund", "arguments": {"cents": 17}}


async def test_the_model_reads_why_a_call_is_refused() -> None:
    desk = Desk()
    desk.answer = "no: ask for a receipt first"
    (said,) = await desk.run('{"cents": 17}')
    assert said == "refund was not called: a person has not allowed it: ask for a receipt first"
    assert desk.paid == []


async def test_edited_arguments_run_and_are_checked() -> None:
    desk = Desk()
    desk.answer = '{"cents": 5}'
    assert await desk.run('{"cents": 17}') == ["paid 5"]
    desk.answer = '{"cents": "many"}'
    (said,) = await desk.run('{"cents": 17}')
    assert "cents" in said
    assert desk.paid == [5]


async def test_a_function_of_the_arguments_says_which_calls_are_asked_for() -> None:
    async def is_much(arguments: Mapping[str, Any]) -> bool:
        return bool(arguments["cents"] > 100)

    for needs in (is_much, lambda arguments: arguments["cents"] > 100):
        desk = Desk(needs)
        assert await desk.run('{"cents": 17}', '{"cents": 200}') == ["paid 17", "paid 200"]
        assert [question.details["arguments"] for question in desk.asked] == [{"cents": 200}]


async def test_where_the_function_fails_nothing_runs() -> None:
    desk = Desk(lambda arguments: arguments["dollars"] > 100)
    (said,) = await desk.run('{"cents": 200}')
    assert "whether a person has to allow it" in said
    assert desk.paid == []


async def test_a_rule_says_who_and_for_how_long() -> None:
    desk = Desk(ApprovalRule(by="ada", timeout=60))
    await desk.run('{"cents": 17}')
    (question,) = desk.asked
    assert question.to == ("ada",)
    assert question.timeout == 60
    assert not question.default.approved


async def test_a_question_that_is_withdrawn_refuses_the_call() -> None:
    desk = Desk()

    def withdraw(question: Question) -> str:
        raise InputWithdrawnError("q1")

    with asking_by(withdraw):
        (said,) = await run_tools([FunctionCall("1", '{"cents": 17}', "refund")], desk.workbench)
    assert said.is_error
    assert "withdrawn" in said.content
    assert desk.paid == []


async def test_a_caller_says_it_for_tools_of_others() -> None:
    desk = Desk(needs_approval=False)
    assert await desk.run('{"cents": 17}', needs_approval={"refund": True}) == ["paid 17"]
    assert len(desk.asked) == 1
    desk = Desk(needs_approval=True)
    assert await desk.run('{"cents": 17}', needs_approval={"refund": False}) == ["paid 17"]
    assert not desk.asked


async def test_no_call_passes_beside_the_question() -> None:
    """Neither one that asks nobody, nor one through a workbench that does not say that somebody has to be asked."""

    class Around(Workbench):
        async def list_tools(self) -> Any:
            return await desk.workbench.list_tools()

        async def call_tool(
            self, name: str, arguments: Any = None, cancellation_token: Any = None, call_id: Any = None
        ) -> Any:
            return await desk.workbench.call_tool(name, arguments, cancellation_token, call_id)

    desk = Desk()
    result = await desk.workbench.call_tool("refund", {"cents": 17})
    assert result.is_error
    (said,) = await desk.run('{"cents": 17}', workbench=Around())
    assert "nobody was asked" in said
    assert desk.paid == []


async def test_without_anybody_to_ask_the_calls_fail_loudly() -> None:
    desk = Desk()
    with pytest.raises(CannotAskError, match="on_input"):
        await run_tools([FunctionCall("1", '{"cents": 17}', "refund")], desk.workbench)
    assert desk.paid == []


async def test_calls_beside_it_go_on_meanwhile() -> None:
    desk, noted = Desk(), asyncio.Event()

    async def note() -> str:
        """Notes."""
        noted.set()
        return "noted"

    async def ask(question: Question) -> str:
        await noted.wait()
        return "yes"

    bench = StaticWorkbench([FunctionTool(desk.refund, needs_approval=True), FunctionTool(note)])
    calls: Sequence[FunctionCall] = [
        FunctionCall("1", '{"cents": 1}', "refund"),
        FunctionCall("2", "{}", "note"),
    ]
    with asking_by(ask):
        assert [one.content for one in await run_tools(calls, bench)] == ["paid 1", "noted"]


def always() -> str:
    """Nothing."""
    return ""


def test_a_dump_keeps_what_has_to_be_allowed() -> None:
    dump = FunctionTool(always, needs_approval=True).to_config()
    assert FunctionTool.from_config(dump).needs_approval is True
    with pytest.raises(ToolDeclarationError, match="needs_approval"):
        FunctionTool(always, needs_approval=lambda arguments: True).to_config()


def test_the_decorator_and_a_tool_of_a_tool_keep_it() -> None:
    made = tool(needs_approval=True)(always)
    assert FunctionTool(made).needs_approval is True
