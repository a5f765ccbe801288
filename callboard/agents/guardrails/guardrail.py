"""The base of guardrails."""

from __future__ import annotations

from collections.abc import Sequence

from callboard.memory.llm_messages import FunctionCall
from callboard.messages.base import BaseChatMessage

from .verdicts import Verdict


class Guardrail:
    """Checks an assistant's tasks, calls or answers: override what it is to check; the rest passes.

    In a handler of the bus what it says is recorded, so that another attempt at the message does not ask it again. For
    checks that are one function or one agent there are `TaskGuardrail`, `CallGuardrail` and `AnswerGuardrail`.
    """

    async def check_task(self, task: Sequence[BaseChatMessage]) -> Verdict[Sequence[BaseChatMessage]]:
        """Look at what is new, before the assistant hears it.

        Args:
            task: The messages, at least one.

        Returns:
            Refused: the assistant says why, remembers nothing of it, and asks no model. Changed: the messages in their
            place.
        """
        return None

    async def check_call(self, call: FunctionCall) -> Verdict[FunctionCall]:
        """Look at a call that the model asks for, handoffs included, before it is made.

        Args:
            call: Its name, and its arguments as the model wrote them: they may be no JSON.

        Returns:
            Refused: the reason is the result of the call, the other calls are made. Changed: the call in its place, with
            the same id.
        """
        return None

    async def check_answer(self, answer: BaseChatMessage) -> Verdict[BaseChatMessage]:
        """Look at an answer before anybody sees it: the pieces of a streamed one are not shown, where this is overridden.

        Args:
            answer: What the assistant is about to say; handoffs are checked as calls.

        Returns:
            Refused: the model reads why, and writes another one. Changed: the message in its place.
        """
        return None

    @property
    def checks_answers(self) -> bool:
        """Whether `check_answer` is overridden."""
        return type(self).check_answer is not Guardrail.check_answer
