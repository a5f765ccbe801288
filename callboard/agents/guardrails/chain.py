"""All guardrails of an assistant, one after the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

from callboard.memory.llm_messages import FunctionCall
from callboard.messages.base import BaseChatMessage

from .guardrail import Guardrail
from .recording import AnswerForm, CallForm, Form, TaskForm, recorded
from .verdicts import Asks, Changed, Decision, Refused, Verdict

T = TypeVar("T")

Decide: TypeAlias = Callable[[Asks], Awaitable[Decision]]
"""Asks a person."""


class GuardrailChain:
    """Asks guardrails in their order; each sees what the one before it has made of the thing.

    Args:
        guardrails: The guardrails.
        decide: Asked where one of them asks.
    """

    def __init__(self, guardrails: Sequence[Guardrail], decide: Decide) -> None:
        self._guardrails = guardrails
        self._decide = decide

    @property
    def checks_answers(self) -> bool:
        """Whether one of them looks at answers."""
        return any(one.checks_answers for one in self._guardrails)

    async def task(self, task: Sequence[BaseChatMessage]) -> Sequence[BaseChatMessage] | Refused:
        """The task that goes on, or why none does."""
        return await self._passed(task, TaskForm(), [one.check_task for one in self._guardrails])

    async def call(self, call: FunctionCall) -> FunctionCall | Refused:
        """The call that goes on, or why none does."""
        checks = [one.check_call for one in self._guardrails]
        passed = await self._passed(call, CallForm(), checks)
        # The model knows its call by the id alone.
        return passed if isinstance(passed, Refused) else FunctionCall(call.id, passed.arguments, passed.name)

    async def answer(self, answer: BaseChatMessage) -> BaseChatMessage | Refused:
        """The answer that goes on, or why none does."""
        return await self._passed(answer, AnswerForm(), [one.check_answer for one in self._guardrails])

    async def _passed(
        self, thing: T, form: Form[T], checks: Sequence[Callable[[T], Awaitable[Verdict[T]]]]
    ) -> T | Refused:
        for number, check in enumerate(checks):
            verdict = await recorded(number, thing, form, check)
            decision = await self._decide(verdict) if isinstance(verdict, Asks) else verdict
            if isinstance(decision, Refused):
                return decision
            if isinstance(decision, Changed):
                thing = decision.value
        return thing
