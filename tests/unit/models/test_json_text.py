"""JSON in texts of models."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.models import extract_json_from_str


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"a": 1}', [{"a": 1}]),
        ("[1]", [[1]]),
        ('```json\n{"a": 1}\n```', [{"a": 1}]),
        ('Here:\n``` JSON \n{"a": 1}\n``` and\n```\n{"b": 2}\n```', [{"a": 1}, {"b": 2}]),
    ],
)
def test_values_are_found(text: str, values: list[Any]) -> None:
    assert extract_json_from_str(text) == values


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no JSON", "Expecting value"),
        ("```json\n{\n```", "Expecting property name"),
        ("```python\nx\n```", "Expected JSON object, but found language: python"),
    ],
)
def test_what_is_no_json(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        extract_json_from_str(text)
