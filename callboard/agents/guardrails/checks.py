"""Guardrails of one function or one agent."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from callboard.memory.llm_messages import FunctionCall
from callboard.messages.base import BaseChatMessage

from .guardrail import Guardrail
from .judging import Check, verdict_of
from .verdicts import Verdict


class TaskGuardrail(Guardrail):
    """Checks what an assistant is asked; see `Guardrail.check_task`.

    Args:
        check: A function of the messages, or an agent, which sees their texts.
    """

    def __init__(self, check: Check[Sequence[BaseChatMessage]]) -> None:
        self._check = check

    async def check_task(self, task: Sequence[BaseChatMessage]) -> Verdict[Sequence[BaseChatMessage]]:
        """See `Guardrail.check_task`."""
        return await verdict_of(self._check, task, "task", _joined)


class CallGuardrail(Guardrail):
    """Checks calls of tools; see `Guardrail.check_call`.

    Args:
        check: A function of the call, or an agent, which sees name and arguments.
        tools: Names of the tools whose calls are checked; None: all, handoffs included.
    """

    def __init__(self, check: Check[FunctionCall], *, tools: Collection[str] | None = None) -> None:
        self._check = check
        self._tools = tools

    async def check_call(self, call: FunctionCall) -> Verdict[FunctionCall]:
        """See `Guardrail.check_call`."""
        if self._tools is not None and call.name not in self._tools:
            return None
        return await verdict_of(self._check, call, "call of a tool", _shown)


class AnswerGuardrail(Guardrail):
    """Checks answers; see `Guardrail.check_answer`.

    Args:
        check: A function of the message, or an agent, which sees its text.
    """

    def __init__(self, check: Check[BaseChatMessage]) -> None:
        self._check = check

    async def check_answer(self, answer: BaseChatMessage) -> Verdict[BaseChatMessage]:
        """See `Guardrail.check_answer`."""
        return await verdict_of(self._check, answer, "answer", lambda message: message.to_text())


def _joined(task: Sequence[BaseChatMessage]) -> str:
    return "\n".join(message.to_text() for message in task)


def _shown(call: FunctionCall) -> str:
    return f"{call.name}({call.arguments})"
