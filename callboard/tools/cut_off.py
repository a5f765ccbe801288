"""Calls that a crash may have cut off: they are marked before they are made, and not made again unasked."""

from __future__ import annotations

import secrets
from typing import Final, TypeVar

from callboard.asking import Question, ask_person
from callboard.cancellation import CancellationToken
from callboard.runtime.steps import NumberedStep

from .asked import AskedCall
from .errors import CallGivenUpError, UnknownOutcomeError
from .unknown import IfUnknown

T = TypeVar("T")

AGAIN: Final = "call it again"
TELL: Final = "tell the model"
FAIL: Final = "fail"
KIND: Final = "unknown_outcome"
LEFT: Final = "left"
CUT_OFF: Final = "cut off"


class Beginning:
    """Marks that a call begins, in each of its attempts.

    An attempt that ends because the tool asks a person is no crash, and is marked as left.

    Args:
        step: The call's step.
        asked: The call.
        if_unknown: "tell" or "ask".
        token: Ends the wait for a person.
    """

    def __init__(
        self, step: NumberedStep, asked: AskedCall, if_unknown: IfUnknown, token: CancellationToken | None
    ) -> None:
        self._step = step
        self._asked = asked
        self._if_unknown = if_unknown
        self._token = token
        self._mine = secrets.token_hex(8)

    async def mark(self) -> None:
        """Mark the beginning; returns when the call may be made.

        Raises:
            UnknownOutcomeError: A crash cut it off, and the model is to be told.
            CallGivenUpError: A person has decided that the turn fails (a RuntimeError).
        """
        number = 0
        # guard: a call that a crash cut off is not made again unasked
        while (begun := await self._recorded(self._named("begun", number), self._mine)) != self._mine:
            if await self._recorded(f"{LEFT}:{begun}", CUT_OFF) == CUT_OFF:
                await self._decide(number)
            number += 1

    async def leave(self) -> None:
        """The attempt ends because the tool has asked a person: it is not cut off."""
        await self._recorded(f"{LEFT}:{self._mine}", LEFT)

    async def _decide(self, number: int) -> None:
        if self._if_unknown == "tell":
            raise UnknownOutcomeError(self._asked.name)
        question = Question(
            text=f"{self._asked.name} was called, and a crash left it unknown whether it did its work. What now?",
            name=f"{self._step.full_name}:{self._named('unknown', number)}",
            choices=(AGAIN, TELL, FAIL),
            details={"kind": KIND, "tool": self._asked.name, "arguments": dict(self._asked.arguments or {})},
        )
        said = await ask_person(question, self._step.context, self._token)
        if said == TELL:
            raise UnknownOutcomeError(self._asked.name)
        if said == FAIL:
            raise CallGivenUpError(self._asked.name)

    async def _recorded(self, name: str, value: str) -> str:
        return await self._step.context.once(f"{self._step.full_name}:{name}", _same, value)

    def _named(self, name: str, number: int) -> str:
        return f"{name}:{number}" if number else name


async def _same(value: T) -> T:
    return value
