"""A group chat of a pattern for a test that kills its processes: a function writes a line, says who is next, and changes a
variable that decides what is done after work."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from callboard import App
from callboard.ag2 import (
    AgentTarget,
    ContextExpression,
    DefaultPattern,
    ExpressionContextCondition,
    OnContextCondition,
    ReplyResult,
    TerminateTarget,
)
from callboard.groupchat import ContextVariables, ConversableAgent
from callboard.memory.llm_messages import FunctionCall, LLMMessage
from callboard.models import ReplayChatCompletionClient
from callboard.models.replay import Answer
from tests.helpers.dying import die_where_told


def routes(messages: Sequence[LLMMessage]) -> Answer:
    return [FunctionCall("1", '{"order": 7}', "route")]


def counts(messages: Sequence[LLMMessage]) -> Answer:
    return f"{len(messages) - 1} read"


triage = ConversableAgent(
    "triage", human_input_mode="NEVER", llm_config=ReplayChatCompletionClient(default=routes)
)
desk = ConversableAgent(
    "desk", human_input_mode="NEVER", llm_config=ReplayChatCompletionClient(default=counts)
)


@triage.register_for_llm(description="Says who looks after an order.")
def route(order: int, context_variables: ContextVariables) -> ReplyResult:
    with Path(os.environ["NOTES"]).open("a", encoding="utf-8") as notes:
        notes.write(f"{order}\n")
    context_variables["order"] = order
    return ReplyResult("routed", AgentTarget(desk))


known = ExpressionContextCondition(ContextExpression("${order} == 7"))
desk.handoffs.add_after_work(OnContextCondition(TerminateTarget(), known))

app = App("support")
app.team(DefaultPattern(triage, [triage, desk], group_after_work=AgentTarget(triage)).team(name="support"))

die_where_told()
