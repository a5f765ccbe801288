"""Questions to people in a run of this process: each is answered once, by whoever is first."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from callboard.asking import NO_DEFAULT, Question, ask_person, checked
from callboard.broker.inquiry import InputStatus
from callboard.errors import (
    InputAnsweredError,
    InputError,
    InputExpiredError,
    InputRequestUnknownError,
    InputWithdrawnError,
    NotAllowedToAnswerError,
)
from callboard.questions import CheckedQuestion, as_json
from callboard.runtime.steps import running_context


@dataclass(slots=True)
class ProcessQuestion:
    """A question of a run.

    Attributes:
        id: Its id.
        question: What is asked.
        expires: Until when it can be answered; None: always.
        answer: The answer, once there is one.
        status: How it stands.
        by: Who answered it; "": nobody, or they did not say.
        ended: When it was over: Unix time in seconds.
    """

    id: str
    question: CheckedQuestion[Any]
    expires: datetime | None
    answer: asyncio.Future[Any]
    status: InputStatus = InputStatus.OPEN
    by: str = ""
    ended: float = 0.0

    @property
    def details(self) -> dict[str, Any]:
        """What is shown with it."""
        shown: dict[str, Any] = json.loads(self.question.details or "{}")
        return shown


class ProcessQuestions:
    """The questions of one run. What is asked, and what is an answer, is as on the bus.

    Args:
        begun: Called with each question when it is asked.
        ended: Called when it is over, with the answer as plain data.
    """

    def __init__(
        self, begun: Callable[[ProcessQuestion], None], ended: Callable[[ProcessQuestion, Any], None]
    ) -> None:
        self._begun = begun
        self._ended = ended
        self._asked: dict[str, ProcessQuestion] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether one of them waits for its answer."""
        return any(asked.status is InputStatus.OPEN for asked in self._asked.values())

    async def ask(self, question: Question) -> Any:
        """Ask, and wait for the answer.

        Raises:
            InputExpiredError: The time is over, and there is no default (a TimeoutError).
            QuestionError: It can't be asked like that (a ValueError).
        """
        asked_for, timeout = checked(question), question.timeout
        expires = None if timeout is None else datetime.now(UTC) + timedelta(seconds=timeout)
        await asyncio.sleep(0)  # what was shown before comes before it
        asked = ProcessQuestion(uuid4().hex, asked_for, expires, asyncio.get_running_loop().create_future())
        self._asked[asked.id] = asked
        self._begun(asked)
        try:
            async with asyncio.timeout(timeout):
                return await asked.answer
        except TimeoutError:
            self._end(asked, InputStatus.EXPIRED)
            if asked_for.default is None:
                raise InputExpiredError(asked.id) from None
            return asked_for.read(asked.id, asked_for.default)
        except asyncio.CancelledError:
            self._end(asked, InputStatus.WITHDRAWN)
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
        if asked.status is not InputStatus.OPEN:
            raise _over(asked)
        if asked.question.to and by not in asked.question.to:
            raise NotAllowedToAnswerError(input_id, by, asked.question.to)
        text = as_json(value)
        read = asked.question.check(input_id, text)
        self._end(asked, InputStatus.ANSWERED, json.loads(text), by)
        asked.answer.set_result(read)

    def _end(self, asked: ProcessQuestion, status: InputStatus, value: Any = None, by: str = "") -> None:
        if asked.status is InputStatus.OPEN:
            asked.status, asked.by, asked.ended = status, by, time.time()
            self._ended(asked, value)


def _over(asked: ProcessQuestion) -> InputError:
    if asked.status is InputStatus.ANSWERED:
        return InputAnsweredError(asked.id, asked.by, asked.ended)
    return (InputExpiredError if asked.status is InputStatus.EXPIRED else InputWithdrawnError)(asked.id)


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
