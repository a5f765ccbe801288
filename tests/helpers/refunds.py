"""An order desk for tests that kill its processes: three tools that write lines, one of which a person has to allow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from callboard import App
from callboard.agents import AssistantAgent
from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResultMessage, LLMMessage
from callboard.models import ReplayChatCompletionClient
from callboard.models.replay import Answer
from callboard.teams import RoundRobinGroupChat
from callboard.tools import FunctionTool


def _note(line: str) -> str:
    with Path(os.environ["NOTES"]).open("a", encoding="utf-8") as notes:
        notes.write(f"{line}\n")
    return line


async def look_up(order: int) -> str:
    """Tells what is known of an order."""
    return _note(f"looked up {order}")


async def refund(cents: int) -> str:
    """Gives money back."""
    return _note(f"paid {cents}")


async def thank() -> str:
    """Thanks the customer."""
    return _note("thanked")


def acts(messages: Sequence[LLMMessage]) -> Answer:
    """Calls all three at once, and then says what they said."""
    last = messages[-1]
    if isinstance(last, FunctionExecutionResultMessage):
        return "; ".join(result.content for result in last.content)
    _note("the model was asked")
    return [
        FunctionCall("1", '{"order": 7}', "look_up"),
        FunctionCall("2", '{"cents": 8900}', "refund"),
        FunctionCall("3", "{}", "thank"),
    ]


app = App("refunds")
tools: list[Any] = [look_up, FunctionTool(refund, needs_approval=True), thank]
desk = AssistantAgent("desk", ReplayChatCompletionClient(default=acts), tools=tools, reflect_on_tool_use=True)
app.team(RoundRobinGroupChat([desk], name="orders", max_turns=1))
