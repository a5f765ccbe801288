"""The progress ledger: what the orchestrator's model thinks of the work."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from callboard.foundation.json_texts import read_json
from callboard.teams.errors import LedgerError
from callboard.teams.json_text import first_problem, json_text


class BooleanAnswer(BaseModel):
    """Yes or no, and why."""

    reason: str
    answer: bool


class StringAnswer(BaseModel):
    """A text, and why."""

    reason: str
    answer: str


class LedgerEntry(BaseModel):
    """How the work stands; the fields are AutoGen's.

    Attributes:
        is_request_satisfied: Whether it is done.
        is_in_loop: Whether it repeats itself.
        is_progress_being_made: Whether it goes forward.
        next_speaker: Who is to speak.
        instruction_or_question: What that member is told.
    """

    is_request_satisfied: BooleanAnswer
    is_in_loop: BooleanAnswer
    is_progress_being_made: BooleanAnswer
    next_speaker: StringAnswer
    instruction_or_question: StringAnswer

    @property
    def is_stalled(self) -> bool:
        """Whether the work does not get on."""
        return not self.is_progress_being_made.answer or self.is_in_loop.answer


def read_ledger(text: str, names: Sequence[str]) -> LedgerEntry:
    """The ledger in a model's answer, which may stand in a fenced block.

    Args:
        text: The answer.
        names: Who may speak; with one member it is that one, whatever the model says.

    Raises:
        LedgerError: There is none, or it names nobody who may speak (a ValueError).
    """
    data = _object(text)
    if len(names) == 1:
        data["next_speaker"] = {"reason": "The team has only this member.", "answer": names[0]}
    try:
        entry = LedgerEntry.model_validate(data)
    except ValidationError as error:
        raise LedgerError(first_problem(error)) from error
    if not entry.is_request_satisfied.answer and entry.next_speaker.answer not in names:
        raise LedgerError(f"next_speaker is none of {list(names)}")
    return entry


def _object(text: str) -> dict[str, Any]:
    try:
        data = read_json(json_text(text))
    except json.JSONDecodeError as error:
        raise LedgerError("it is not JSON") from error
    except ValueError as error:
        raise LedgerError(str(error)) from error
    if not isinstance(data, dict):
        raise LedgerError("it is not a JSON object")
    return data
