"""Questions that wait for an answer, as those see them who answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from callboard.broker.errors import BrokerError
from callboard.broker.ids import AgentId
from callboard.broker.inquiry import InputStatus

from .answer_check import check_answer
from .errors import InputDamagedError, InputValueError


@dataclass(frozen=True, slots=True)
class InputRequest:
    """A question of a handler, and what came of it.

    Attributes:
        id: Of the question; the same in every attempt at the message.
        question: What is asked.
        agent: The agent whose handler asks.
        message_id: The message that it handles.
        run_path: Path of the run that the message belongs to, from the outermost run inwards, with separators; None: none.
        name: Tells the questions of one handler apart.
        choices: The answers there are; () for any.
        schema: JSON schema of an answer.
        to: Who may answer; () for anybody.
        details: What is shown with it.
        asked: When it was asked first: Unix time in seconds, on the server's clock.
        expires: When it expires; None: never.
        default: What is taken then, as plain data; None also when there is none, see `has_default`.
        has_default: Whether there is one; without, the handler gets InputExpiredError.
        status: What came of it.
        answer: The answer, as plain data; None without one.
        by: Who answered or withdrew it; "" when they did not say.
        ended: When it was answered, expired or was withdrawn; None while it is open.
    """

    id: str
    question: str
    agent: AgentId
    message_id: str
    run_path: str | None
    name: str
    choices: tuple[str, ...]
    schema: Mapping[str, Any]
    to: tuple[str, ...]
    details: Mapping[str, Any]
    asked: float
    expires: float | None
    default: Any
    has_default: bool
    status: InputStatus
    answer: Any
    by: str
    ended: float | None

    @property
    def run_id(self) -> str | None:
        """The old name of `run_path`, which is no id of a run."""
        return self.run_path

    @classmethod
    def of(cls, input_id: str, fields: Mapping[str, str]) -> InputRequest:
        """Reads what the server keeps.

        Args:
            input_id: Id of the question.
            fields: Of its record.

        Raises:
            InputDamagedError: Somebody changed the record by hand.
        """
        try:
            return cls._read(input_id, fields)
        except (BrokerError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise InputDamagedError(input_id, f"{type(error).__name__}: {error}") from error

    @classmethod
    def _read(cls, input_id: str, fields: Mapping[str, str]) -> InputRequest:
        default, answer = fields.get("default", ""), fields.get("answer", "")
        return cls(
            id=input_id,
            question=fields.get("question", ""),
            agent=AgentId(fields["type"], fields["key"]),
            message_id=fields["message"],
            run_path=fields.get("run") or None,
            name=fields["name"],
            choices=tuple(_read(fields.get("choices"), [])),
            schema=_read(fields.get("schema"), {}),
            to=tuple(_read(fields.get("to"), [])),
            details=_read(fields.get("details"), {}),
            asked=int(fields["asked"]) / 1000,
            expires=_seconds(fields.get("expires")),
            default=_read(default, None),
            has_default=bool(default),
            status=InputStatus(fields["status"]),
            answer=_read(answer, None),
            by=fields.get("by", ""),
            ended=_seconds(fields.get("at")),
        )

    def read(self, text: str) -> Any:
        """What somebody typed, as an answer: the text itself where text is asked for, else JSON.

        Raises:
            InputValueError: It is not JSON where that is needed.
        """
        if self.choices or self.schema.get("type") == "string":
            return text
        try:
            return json.loads(text)
        except ValueError:
            raise InputValueError(self.id, f"{self.expected} is asked for, as JSON") from None

    @property
    def expected(self) -> str:
        """What an answer is, in short."""
        return str(self.schema.get("title") or self.schema.get("type") or "anything")

    def check(self, value: Any) -> None:
        """Refuses what is no answer.

        Args:
            value: Plain data.

        Raises:
            InputValueError: It is none of the choices, or does not fit the schema.
            InputDamagedError: The schema is none: somebody changed the record by hand.
        """
        check_answer(self.id, self.choices, self.schema, value)


def _read(text: str | None, otherwise: Any) -> Any:
    return json.loads(text) if text else otherwise


def _seconds(ms: str | None) -> float | None:
    return int(ms) / 1000 if ms else None
