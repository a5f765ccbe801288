"""What people type, as answers."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.core.answers import answer_of, how_to_answer
from callboard.errors import InputValueError

APPROVAL = {"kind": "tool_approval"}
TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
EITHER = {"anyOf": [NUMBER, TEXT]}


@pytest.mark.parametrize(
    ("text", "choices", "schema", "details", "answer"),
    [
        ("yes", (), {}, APPROVAL, {"approved": True}),
        ("no: late", (), {}, APPROVAL, {"approved": False, "reason": "late"}),
        ('{"cents": 5}', (), {}, APPROVAL, {"approved": True, "arguments": {"cents": 5}}),
        ("no", (), {}, {"kind": "guardrail"}, {"approved": False}),
        ("2", ("tea", "coffee"), TEXT, {}, "coffee"),
        ("2", ("1", "2", "3"), TEXT, {}, "2"),
        ("water", ("tea", "coffee"), TEXT, {}, "water"),  # refused where it is given
        ("17", (), TEXT, {}, "17"),
        ("17", (), NUMBER, {}, 17),
        ("17", (), {}, {}, "17"),
        ("17", (), EITHER, {}, 17),
        ("many", (), EITHER, {}, "many"),
    ],
)
def test_what_is_typed(text: str, choices: Any, schema: Any, details: Any, answer: Any) -> None:
    assert answer_of(text, "1", choices, schema, details) == answer


@pytest.mark.parametrize(
    ("text", "schema", "details", "says"),
    [
        ("maybe", {}, APPROVAL, "yes, no"),
        ('{"cents": ', {}, APPROVAL, "yes, no"),
        ('{"cents": 5}', {}, {"kind": "guardrail"}, "yes, no"),
        ("many", NUMBER, {}, "integer"),
    ],
)
def test_what_is_no_answer(text: str, schema: Any, details: Any, says: str) -> None:
    with pytest.raises(InputValueError, match=says):
        answer_of(text, "1", (), schema, details)


def test_people_are_told_how() -> None:
    assert how_to_answer((), {}, APPROVAL) == "yes, no, no: the reason, or other arguments as JSON"
    assert how_to_answer(("tea", "coffee"), TEXT, {}) == "1 tea, or 2 coffee"
    assert how_to_answer((), TEXT, {}) == "a text"
    assert how_to_answer((), NUMBER, {}) == "integer, as JSON"
