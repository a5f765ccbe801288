"""Answers of people: yes or no to a question, and what they type, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationError, model_validator

from callboard.errors import InputValueError
from callboard.foundation.texts import read_json

# What `_read` below understands, as a part of a JSON schema.
SAID: Final = {"type": "string", "pattern": r"^\s*([Yy]([Ee][Ss])?|[Nn][Oo]?(\s*:[\s\S]*)?)\s*$"}
YES: Final = frozenset({"yes", "y"})
NO: Final = frozenset({"no", "n"})
APPROVAL: Final = "tool_approval"
CONSENT: Final = "guardrail"
"""Kinds of questions, in their details: whether a tool may be called, and whether a guardrail lets something through."""


class Consent(BaseModel):
    """Yes, or no and why. As a text it is "yes", "no", or "no: the reason".

    Attributes:
        approved: Whether it may be.
        reason: Why not; the model reads it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    approved: bool
    reason: str = ""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, given: Any) -> Any:
        if isinstance(given, bool):
            return {"approved": given}
        return cls._read(given.strip()) if isinstance(given, str) else given

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return said_or(dict(handler(core)))

    @classmethod
    def _read(cls, text: str) -> dict[str, Any]:
        word, _, rest = text.partition(":")
        if text.lower() in YES:
            return {"approved": True}
        if word.strip().lower() in NO:
            return {"approved": False, "reason": rest.strip()}
        raise ValueError("say yes, or no, or no: and the reason")


def said_or(schema: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of an answer that may be said in a word, too."""
    return {"title": "Consent", "anyOf": [schema, {"type": "boolean"}, SAID]}


class Approval(Consent):
    """A person's decision on a call. As a text it may also be the arguments with which the call is to be made, as JSON.

    Attributes:
        arguments: The call is made with these instead of the model's; None: with the model's.
    """

    arguments: dict[str, Any] | None = None

    @classmethod
    def _read(cls, text: str) -> dict[str, Any]:
        if not text.startswith("{"):
            return super()._read(text)
        return {"approved": True, "arguments": read_json(text)}


def answer_of(
    text: str, input_id: str, choices: Sequence[str], schema: Mapping[str, Any], details: Mapping[str, Any]
) -> Any:
    """A typed answer to a question, as plain data.

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
    if kind in (APPROVAL, CONSENT):
        return _consent(text, input_id, Approval if kind == APPROVAL else Consent)
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
    """The answers that can be typed, in a few words."""
    kind = details.get("kind")
    if kind in (APPROVAL, CONSENT):
        return "yes, no, no: the reason" + (", or other arguments as JSON" if kind == APPROVAL else "")
    if choices:
        return ", or ".join(f"{number} {choice}" for number, choice in enumerate(choices, 1))
    if schema.get("type", "string") == "string":
        return "a text"
    return f"{schema.get('title') or schema['type']}, as JSON"
