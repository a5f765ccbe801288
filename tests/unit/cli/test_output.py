"""Tables, JSON and time spans."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from pydantic import BaseModel

from callboard.cli.commands.ask import shown
from callboard.cli.output import ago, columns, duration, plain, size, to_json, wrapped


def test_a_cell_is_one_line() -> None:
    assert columns(["KEY"], [["a\n\x1b[31mred"]]) == ["KEY", "a\\u000a\\u001b[31mred"]


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


# Narrow terminals


def test_a_table_that_is_too_wide_is_a_block_for_each_row() -> None:
    lines = columns(("TYPE", "WAITING", "STATE"), [("counter", 12, "x" * 5), ("b", 3, "short")], 20)
    assert lines == ["counter", "  WAITING 12", "  STATE xxxxx", "b", "  WAITING 3", "  STATE short"]
    assert columns(("TYPE", "WAITING"), [("counter", 12)], 20) == columns(
        ("TYPE", "WAITING"), [("counter", 12)]
    )


@pytest.mark.parametrize("width", [80, 60, 40])
def test_no_line_is_wider_than_the_terminal_and_no_word_is_cut(width: int) -> None:
    reason = "failed: ValueError: a long text of an error that has many words and is wider than any terminal of these"
    rows = [("counter/1763700000000-0", "Visit", "ada", 3, reason)]
    lines = columns(("LETTER", "MESSAGE", "KEY", "TRIES", "REASON"), rows, width)
    assert max(map(len, lines)) <= width
    assert " ".join(" ".join(lines).split()).endswith(reason)


def test_a_sentence_is_wrapped_between_words_and_a_long_word_stays_whole() -> None:
    long = "x" * 50
    assert wrapped(f"it is {long} here", 40, indent="  ") == ["it is", f"  {long}", "  here"]
    assert wrapped("any length " * 30, None) == ["any length " * 30]


def test_sizes_and_ages_for_people() -> None:
    assert [size(n) for n in (0, 999, 1000, 1_500_000, 12_000_000_000)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "1.5 MB",
        "12.0 GB",
    ]
    assert (ago(None, 5), ago(1000, 3500), ago(9, 5)) == (None, "2.5 s", "0 ms")
