"""What people type, as answers to questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from callboard.errors import InputValueError
from callboard.foundation.json_texts import read_json

from .approval import KIND, Approval, Consent

CONSENT: Final = "guardrail"


def answer_of(
    text: str, input_id: str, choices: Sequence[str], schema: Mapping[str, Any], details: Mapping[str, Any]
) -> Any:
    """What somebody has typed, as plain data that answers a question.

    For an approval: yes, no, no: and the reason, or other arguments as a JSON object. Where there are choices: one of
    them, or its number. Where text is asked for: the text. Else JSON.

    Args:
        text: What was typed.
        input_id: Id of the question.
        choices: Its choices.
        schema: JSON schema of its answer.
        details: What is shown with it.

    Raises:
        InputValueError: It can't be understood (a ValueError).
    """
    kind = details.get("kind")
    if kind in (KIND, CONSENT):
        return _consent(text, input_id, Approval if kind == KIND else Consent)
    if choices:
        is_number = text.isdecimal() and 0 < int(text) <= len(choices)
        return choices[int(text) - 1] if is_number and text not in choices else text
    named = schema.get("type")
    if named == "string" or not schema:
        return text
    try:
        return read_json(text)
    except ValueError:
        if named is None:  # several types, or any: a text may be one of them
            return text
        wanted = schema.get("title") or named
        raise InputValueError(input_id, f"{wanted} is asked for, as JSON") from None


def _consent(text: str, input_id: str, kind: type[Consent]) -> Any:
    try:
        return kind.model_validate(text).model_dump(mode="json", exclude_defaults=True)
    except ValidationError:
        edited = ", or other arguments as a JSON object" if kind is Approval else ""
        raise InputValueError(input_id, f"say yes, no, or no: and the reason{edited}") from None


def how_to_answer(choices: Sequence[str], schema: Mapping[str, Any], details: Mapping[str, Any]) -> str:
    """What can be typed, in a few words."""
    kind = details.get("kind")
    if kind in (KIND, CONSENT):
        return "yes, no, no: the reason" + (", or other arguments as JSON" if kind == KIND else "")
    if choices:
        return ", or ".join(f"{number} {choice}" for number, choice in enumerate(choices, 1))
    if schema.get("type", "string") == "string":
        return "a text"
    return f"{schema.get('title') or schema['type']}, as JSON"
