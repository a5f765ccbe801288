from __future__ import annotations

from typing import Generic, TypeVar

import pytest
from pydantic import BaseModel

from callboard.models.errors import BadResponseError
from callboard.models.openai.answer import without_fence
from callboard.models.openai.chat_request import Output, class_format


class Counts(BaseModel):
    table: dict[str, int]


T = TypeVar("T")


class Pair(BaseModel, Generic[T]):
    first: T
    second: T


class Outer(BaseModel):
    counts: list[Counts]


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("a", "a"),
        (" a\n", "a"),
        ("```json\n{}\n```", "{}"),
        ("```\n{}\n```\n", "{}"),
        ("``` json\n{}```", "{}"),
        ("before ```json\n{}\n```", "before ```json\n{}\n```"),
        ("```python\n{}\n```", "```python\n{}\n```"),
    ],
)
def test_a_fence_around_everything_goes(text: str, bare: str) -> None:
    assert without_fence(text) == bare


def test_a_class_with_any_keys_is_asked_for_without_strictness() -> None:
    made = class_format(Counts)["json_schema"]

    assert made == {"name": "Counts", "schema": Counts.model_json_schema(), "strict": False}


def test_a_generic_class_has_a_name_that_can_be_sent() -> None:
    assert class_format(Pair[int])["json_schema"]["name"] == "Pair_int_"


def test_a_problem_is_told_by_its_place() -> None:
    output = Output("m", Outer)

    assert output.checked('{"counts": [{"table": {"a": 1}}]}')
    with pytest.raises(BadResponseError, match=r"no Outer: counts\.0\.table\.a: "):
        output.checked('{"counts": [{"table": {"a": "secret"}}]}')
    with pytest.raises(BadResponseError, match="no Outer: Invalid JSON"):
        output.checked("text")


def test_text_is_not_looked_at() -> None:
    for format_ in (None, False, {"type": "json_object"}):
        assert Output("m", format_).checked(" ```\nx\n``` ") == " ```\nx\n``` "
