"""Questions to people in a run of this process: each is answered once, by whoever is first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError

from callboard.asking import NO_DEFAULT, Question, ask_person
from callboard.errors import (
    InputAnsweredError,
    InputExpiredError,
    InputRequestUnknownError,
    InputValueError,
    InputWithdrawnError,
    NotAllowedToAnswerError,
)
from callboard.runtime.steps import running_context

Status: TypeAlias = Literal["open", "answered", "expired", "withdrawn"]


@dataclass(slots=True)
class Asked:
    """A question of a run.

    Attributes:
        id: Its id.
        question: What is asked.
        expires: Until when it can be answered; None: always.
        answer: The answer, once there is one.
        status: How it stands.
    """

    id: str
    question: Question
    expires: datetime | None
    answer: asyncio.Future[Any]
    status: Status = "open"


class Questions:
    """The questions of one run.

    Args:
        begun: Called with each question when it is asked.
        ended: Called when it is over, with the answer, and who gave it.
    """

    def __init__(self, begun: Callable[[Asked], None], ended: Callable[[Asked, Any, str], None]) -> None:
        self._begun = begun
        self._ended = ended
        self._asked: dict[str, Asked] = {}
        self._loop = asyncio.get_running_loop()

    @property
    def is_waiting(self) -> bool:
        """Whether one of them waits for its answer."""
        return any(asked.status == "open" for asked in self._asked.values())

    async def ask(self, question: Question) -> Any:
        """Ask, and wait for the answer.

        Raises:
            InputExpiredError: The time is over, and there is no default (a TimeoutError).
        """
        timeout = question.timeout
        expires = None if timeout is None else datetime.now(UTC) + timedelta(seconds=timeout)
        await asyncio.sleep(0)  # what was shown before comes before it
        asked = Asked(uuid4().hex, question, expires, asyncio.get_running_loop().create_future())
        self._asked[asked.id] = asked
        self._begun(asked)
        try:
            async with asyncio.timeout(timeout):
                return await asked.answer
        except TimeoutError:
            self._end(asked, "expired")
            if question.default is NO_DEFAULT:
                raise InputExpiredError(asked.id) from None
            return question.default
        except asyncio.CancelledError:
            self._end(asked, "withdrawn")
            raise

    def answer(self, input_id: str, value: Any, by: str = "") -> None:
        """Answer; the first answer counts.

        Raises:
            InputRequestUnknownError: There is no such question (a LookupError).
            InputAnsweredError: It was answered before.
            InputExpiredError: Its time is over (a TimeoutError).
            InputWithdrawnError: Nobody waits for it any more.
            NotAllowedToAnswerError: It was put to somebody else (a PermissionError).
            InputValueError: It can't be answered with this (a ValueError); it stays open.
        """
        asked = self._asked.get(input_id)
        if asked is None:
            raise InputRequestUnknownError(input_id)
        # guard: the first answer counts
        if asked.status != "open":
            raise _OVER[asked.status](input_id)
        if asked.question.to and by not in asked.question.to:
            raise NotAllowedToAnswerError(input_id, by, asked.question.to)
        read = _checked(asked, value)
        self._end(asked, "answered", value, by)
        asked.answer.set_result(read)

    def _end(self, asked: Asked, status: Status, value: Any = None, by: str = "") -> None:
        if asked.status == "open":
            asked.status = status
            self._ended(asked, value, by)


_OVER: Final = {
    "answered": InputAnsweredError,
    "expired": InputExpiredError,
    "withdrawn": InputWithdrawnError,
}


def _checked(asked: Asked, value: Any) -> Any:
    question = asked.question
    if question.choices is not None and value not in question.choices:
        raise InputValueError(asked.id, f"it has to be one of {', '.join(question.choices)}")
    try:
        return TypeAdapter(question.answer_type).validate_python(value)
    except ValidationError as error:
        problem = "; ".join(one["msg"] for one in error.errors(include_input=False))
        raise InputValueError(asked.id, problem) from error


async def ask_user(
    prompt: str,
    *,
    choices: Sequence[str] | None = None,
    answer_type: Any = str,
    timeout: float | None = None,
    default: Any = ...,
    **details: Any,
) -> Any:
    """Ask whoever follows the run, from a function that one of its agents calls.

    In this process the function waits for the answer. On the bus it ends, and is called again when there is one
    (`MessageContext.ask`).

    Args:
        prompt: The question.
        choices: What may be answered; None: anything that fits `answer_type`.
        answer_type: What an answer is read as; with `Annotated` and a validator of pydantic it can be checked further.
        timeout: Seconds until it is over; None: never.
        default: The answer when it is over; ...: none, and that is an error.
        **details: More about it, as plain data.

    Raises:
        NobodyAnswersError: There is no run here (a RuntimeError).
        InputExpiredError: The time is over (a TimeoutError).
    """
    question = Question(
        text=prompt,
        name=prompt,
        choices=None if choices is None else tuple(choices),
        answer_type=answer_type,
        timeout=timeout,
        default=NO_DEFAULT if default is ... else default,
        details=details,
    )
    return await ask_person(question, running_context())
