"""Questions to people in a run of this process: each is answered once, by whoever is first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal
from uuid import uuid4

from callboard.groupchat.waiting import value_of

from .errors import (
    InputAnsweredError,
    InputExpiredError,
    InputRequestUnknownError,
    InputValueError,
    NobodyToAskError,
)

Validator = Callable[[Any], Any]

UNSET: Final = object()

_asking: Final[ContextVar[Questions | None]] = ContextVar("callboard_questions", default=None)


@dataclass(slots=True)
class Question:
    """A question, open or not.

    Attributes:
        request_id: Its id.
        prompt: Its text.
        source: Who asks.
        choices: What may be answered; nothing: anything.
        details: More about it.
        expires: Until when it can be answered; None: always.
        validator: Called with an answer; raises ValueError, or returns False, for one that is refused.
        status: How it stands.
        answer: Set once it is over.
    """

    request_id: str
    prompt: str
    source: str
    choices: Sequence[str]
    details: Mapping[str, Any]
    expires: datetime | None
    validator: Validator | None
    answer: asyncio.Future[Any]
    status: Literal["open", "answered", "expired", "withdrawn"] = "open"


class Questions:
    """The questions of one run.

    Args:
        asked: Called with each question when it is asked.
        ended: Called when it is over: the question, the answer, who answered.
    """

    def __init__(self, asked: Callable[[Question], None], ended: Callable[[Question, Any, str], None]) -> None:
        self._asked = asked
        self._ended = ended
        self._questions: dict[str, Question] = {}

    @property
    def open(self) -> list[Question]:
        """Those that wait for an answer."""
        return [question for question in self._questions.values() if question.status == "open"]

    async def ask(
        self,
        prompt: str,
        *,
        source: str = "",
        choices: Sequence[str] = (),
        details: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        default: Any = UNSET,
        validator: Validator | None = None,
    ) -> Any:
        """Ask, and wait for the answer; see `ask_user`."""
        expires = None if timeout is None else datetime.now(UTC) + timedelta(seconds=timeout)
        answer = asyncio.get_running_loop().create_future()
        question = Question(
            uuid4().hex, prompt, source, tuple(choices), dict(details or {}), expires, validator, answer
        )
        self._questions[question.request_id] = question
        self._asked(question)
        try:
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError:
            self._end(question, "expired")
            if default is UNSET:
                raise InputExpiredError(question.request_id, prompt) from None
            return default
        except asyncio.CancelledError:
            self._end(question, "withdrawn")
            raise

    async def answer(self, request_id: str, value: Any, by: str = "") -> None:
        """The first answer counts.

        Raises:
            InputRequestUnknownError: There is no such question (a LookupError).
            InputAnsweredError: It was answered already (a RuntimeError).
            InputExpiredError: It is over (a RuntimeError).
            InputValueError: It can't be answered with this (a ValueError); it stays open.
        """
        question = self._question(request_id)
        _check_open(question)
        await _check(question, value)
        # guard: the first answer counts, also where a validator took its time
        _check_open(question)
        self._end(question, "answered", value, by)
        question.answer.set_result(value)

    def _question(self, request_id: str) -> Question:
        question = self._questions.get(request_id)
        if question is None:
            raise InputRequestUnknownError(request_id)
        return question

    def _end(
        self, question: Question, status: Literal["answered", "expired", "withdrawn"], value: Any = None, by: str = ""
    ) -> None:
        if question.status == "open":
            question.status = status
            self._ended(question, value, by)

    def in_force(self) -> None:
        """From here on, whatever this task calls asks these questions."""
        _asking.set(self)


def _check_open(question: Question) -> None:
    if question.status == "answered":
        raise InputAnsweredError(question.request_id)
    if question.status != "open":
        raise InputExpiredError(question.request_id, question.prompt)


async def _check(question: Question, value: Any) -> None:
    if question.choices and value not in question.choices:
        raise InputValueError(question.request_id, f"it can be one of {list(question.choices)}")
    if question.validator is None:
        return
    try:
        is_good = await value_of(question.validator(value))
    except ValueError as error:
        raise InputValueError(question.request_id, str(error)) from error
    if is_good is False:
        raise InputValueError(question.request_id, "the validator refuses it")


async def ask_user(
    prompt: str,
    *,
    source: str = "",
    choices: Sequence[str] = (),
    details: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    default: Any = UNSET,
    validator: Validator | None = None,
) -> Any:
    """Ask whoever follows the run, from a function that one of its agents calls; waits for the answer.

    Args:
        prompt: The question.
        source: Who asks.
        choices: What may be answered; nothing: anything.
        details: More about it, as plain data.
        timeout: Seconds until it is over; None: it waits for ever.
        default: The answer when it is over; without one that is an error.
        validator: Called with each answer; raises ValueError, or returns False, for one that is refused.

    Raises:
        NobodyToAskError: There is no run here (a RuntimeError).
        InputExpiredError: The time is over (a RuntimeError).
    """
    questions = _asking.get()
    if questions is None:
        raise NobodyToAskError(prompt)
    return await questions.ask(
        prompt,
        source=source,
        choices=choices,
        details=details,
        timeout=timeout,
        default=default,
        validator=validator,
    )


