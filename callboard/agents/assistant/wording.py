"""What models and people read when a guardrail has refused something."""

from __future__ import annotations

from typing import Final

from callboard.agents.guardrails.verdicts import Refused
from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResult
from callboard.messages.chat import TextMessage

SOURCE: Final = "guardrail"


def refused_result(call: FunctionCall, refused: Refused) -> FunctionExecutionResult:
    """The result of a call that was refused."""
    return FunctionExecutionResult(
        content=f"Refused: {refused.reason}", name=call.name, call_id=call.id, is_error=True
    )


def try_again(refused: Refused) -> str:
    """For the model whose answer was refused."""
    return f"Nobody has seen this answer, because it was refused: {refused.reason}\nWrite another one in its place."


def no_answer(refused: Refused, source: str) -> TextMessage:
    """For those who wait for an answer, when every one was refused."""
    return TextMessage(content=f"I have no answer that I may give: {refused.reason}", source=source)
