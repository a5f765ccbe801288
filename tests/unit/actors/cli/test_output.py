"""Tables, JSON and time spans."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from pydantic import BaseModel

from callboard.cli.commands.ask import shown
from callboard.cli.output import columns, duration, plain, to_json


class Reply(BaseModel):
    name: str
    when: datetime
    parts: list[int]


class Empty(BaseModel): ...


@dataclass
class Pair:
    left: int
    right: bytes


REPLY = Reply(name="Ada", when=datetime(2026, 1, 2, tzinfo=UTC), parts=[1, 2])


def test_columns_align_numbers_to_the_right_and_text_to_the_left() -> None:
    assert columns(("NAME", "N", "X"), [("a", 1, None), ("long", 100, None)]) == [
        "NAME    N  X",
        "a       1  -",
        "long  100  -",
    ]
    assert columns(("NAME", "N"), []) == ["NAME  N"]


def test_messages_as_json() -> None:
    assert json.loads(to_json(REPLY)) == {"name": "Ada", "when": "2026-01-02T00:00:00Z", "parts": [1, 2]}
    assert plain(Pair(1, b"text")) == {"left": 1, "right": "text"}
    assert plain(b"\xff\x00") == "_wA="
    assert to_json("ä") == '"ä"'


def test_replies_for_people() -> None:
    assert shown(REPLY) == "Reply name=Ada when=2026-01-02T00:00:00Z parts=[1, 2]"
    assert shown(Empty()) == "Empty"
    assert shown(None) == "(no value)"
    assert shown("text") == "text"
    assert shown([1, 2]) == "[1, 2]"
    assert shown(3) == "3"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 ms"), (0.25, "250 ms"), (3.14, "3.1 s"), (75, "1 min 15 s"), (7260, "2 h 1 min")],
)
def test_time_spans(seconds: float, text: str) -> None:
    assert duration(seconds) == text
