"""Who is next in a pattern: the rule, without agents."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.ag2 import (
    AgentNameTarget,
    ContextExpression,
    ExpressionAvailableCondition,
    ExpressionContextCondition,
    GroupManagerTarget,
    OnContextCondition,
    StayTarget,
    StringAvailableCondition,
    StringContextCondition,
    TerminateTarget,
    TransitionTarget,
)
from callboard.ag2.turn_order import HandsOver, PatternPlan, Situation, Speaks, next_step
from callboard.groupchat import ContextVariables, GroupChatDeclarationError

EXECUTOR = "_Group_Tool_Executor"
CALLS = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
TO_B = {"kind": "agent", "agent_name": "b"}


def a_plan(has_user: bool = True, **after_works: Any) -> PatternPlan:
    return PatternPlan(
        initial="a",
        agents=("a", "b"),
        user="user" if has_user else None,
        after_works=after_works,
        group_after_work=GroupManagerTarget(),
        functions={},
    )


def says(name: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "name": name, "content": "x", **more}


def at(*messages: dict[str, Any], has_begun: bool = True, **variables: Any) -> Situation:
    return Situation(messages, messages[-1]["name"], has_begun, ContextVariables(variables))


def after(target: TransitionTarget, **options: Any) -> OnContextCondition:
    return OnContextCondition(target, **options)


A, B, USER = says("a"), says("b"), says("user")
RESULT = says(EXECUTOR, role="tool")
ENDS = [after(TerminateTarget())]


@pytest.mark.parametrize(
    ("rule", "plan", "situation", "step"),
    [
        ("1", a_plan(), at(USER, has_begun=False), Speaks("a")),
        ("1: whatever was said before", a_plan(), at(A, B, has_begun=False), Speaks("a")),
        ("2", a_plan(), at(A, says("b", tool_calls=CALLS)), Speaks(EXECUTOR)),
        ("2: before 3", a_plan(), at(says("a", tool_calls=CALLS, next_target=TO_B)), Speaks(EXECUTOR)),
        ("3", a_plan(), at(A, {**RESULT, "next_target": TO_B}), HandsOver(AgentNameTarget("b"), "a")),
        (
            "3: of a condition",
            a_plan(),
            at(says("a", next_target=TO_B)),
            HandsOver(AgentNameTarget("b"), "a"),
        ),
        (
            "3: who called stays, and not the executor",
            a_plan(),
            at(B, {**RESULT, "next_target": {"kind": "stay"}}),
            HandsOver(StayTarget(), "b"),
        ),
        ("4", a_plan(b=ENDS), at(A, B, RESULT), Speaks("b")),
        ("5", a_plan(b=ENDS), at(A, B, USER), Speaks("b")),
        ("5: somebody else from outside", a_plan(), at(A, says("boss")), Speaks("a")),
        ("5: without a user", a_plan(has_user=False), at(A, says("boss")), Speaks("a")),
        ("5: unless", a_plan(user=ENDS), at(A, USER), HandsOver(TerminateTarget(), "user")),
        ("6", a_plan(a=ENDS), at(A), HandsOver(TerminateTarget(), "a")),
        ("7", a_plan(b=ENDS), at(A), HandsOver(GroupManagerTarget(), "a")),
    ],
)
def test_the_rule(rule: str, plan: PatternPlan, situation: Situation, step: Speaks | HandsOver) -> None:
    assert next_step(plan, situation) == step


def test_nobody_from_outside_names_a_target() -> None:
    assert next_step(a_plan(), at(B, says("user", next_target={"kind": "stay"}))) == Speaks("b")


LATE = ExpressionContextCondition(ContextExpression("${n} > 2"))
WORKS = [
    after(AgentNameTarget("b"), condition=StringContextCondition("ready")),
    after(TerminateTarget(), condition=LATE, available=StringAvailableCondition("may_end")),
    after(StayTarget()),
]


@pytest.mark.parametrize(
    ("variables", "target"),
    [
        ({"ready": True, "n": 3, "may_end": True}, AgentNameTarget("b")),
        ({"n": 3, "may_end": True}, TerminateTarget()),
        ({"n": 3}, StayTarget()),
        ({"n": 2, "may_end": True}, StayTarget()),
        # What ends the run in AG2: a variable that is not there, and one that can't be compared.
        ({"may_end": True}, StayTarget()),
        ({"n": "many", "may_end": True}, StayTarget()),
    ],
)
def test_the_first_that_is_available_and_met(variables: dict[str, Any], target: TransitionTarget) -> None:
    assert next_step(a_plan(a=WORKS), at(A, **variables)) == HandsOver(target, "a")


def test_where_nothing_is_met_the_group_decides() -> None:
    available = ExpressionAvailableCondition(ContextExpression("${gone} == 1"))
    plan = a_plan(a=[after(StayTarget(), available=available)])
    assert next_step(plan, at(A)) == HandsOver(GroupManagerTarget(), "a")


@pytest.mark.parametrize(
    "target", [{"kind": "function", "name": "gone"}, {"kind": "other"}, {"kind": "agent"}, {}, "x"]
)
def test_what_is_no_target(target: Any) -> None:
    with pytest.raises(GroupChatDeclarationError):
        next_step(a_plan(), at(A, {**RESULT, "next_target": target}))


def test_nobody_of_the_group_has_spoken() -> None:
    with pytest.raises(GroupChatDeclarationError, match="Nobody of the group has spoken"):
        next_step(a_plan(), at(USER))
