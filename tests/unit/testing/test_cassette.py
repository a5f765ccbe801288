"""Cassettes as files: read as they were written, and refused by the line where they were cut off or edited."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from callboard.runtime.steps import Take
from callboard.testing import Cassette, CassetteError
from callboard.testing.cassette import Said

ANSWER = {
    "finish_reason": "stop",
    "content": "The sea\u2028is\x85wide.",
    "usage": {"prompt_tokens": 1, "completion_tokens": 1},
    "cached": False,
}
MODEL = Take(
    agent="poets.ann",
    kind="model",
    request={"messages": ["UserMessage 1"], "tools": [], "last": "x\u2029"},
    answer=ANSWER,
)
TOOL = Take(
    agent="poets.ann",
    kind="tool",
    request={"id": "1", "name": "look", "arguments": "{}"},
    answer={"name": "look", "result": [{"type": "TextResultContent", "content": "x"}], "is_error": False},
)
CASSETTE = Cassette(
    "poets", "A\u2028line", [MODEL, TOOL], [Said("user", "A\u2028line"), Said("ann", "\u200f\x1b")], "end"
)
LINES = CASSETTE.dump().split("\n")


def edited(number: int, **changes: Any) -> str:
    """The cassette with changes in one line, from 1; None takes a key away."""
    line = {**json.loads(LINES[number - 1]), **changes}
    line = {key: value for key, value in line.items() if value is not ...}
    return "\n".join([*LINES[: number - 1], json.dumps(line), *LINES[number:]])


def test_what_was_written_is_read_whatever_separates_lines_in_it(tmp_path: Path) -> None:
    assert Cassette.parse(CASSETTE.dump()) == CASSETTE
    CASSETTE.save(tmp_path / "sea.jsonl")
    assert Cassette.load(tmp_path / "sea.jsonl") == CASSETTE


def test_one_of_before_which_did_not_count_its_messages_is_read() -> None:
    assert Cassette.parse(edited(1, said=...)) == CASSETTE


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("[]", "line 1"),
        ("[" * 100_000, "line 1 has lists in lists without end"),
        ("\n".join(LINES[:2]), "it has 1 of its 2 takes"),
        ("\n".join(LINES[:4]), "it has 1 of its 2 messages"),
        ("\n".join(LINES)[:-4], "line 5 is no JSON"),
        ("\n".join([*LINES[:2], "9" * 5000, *LINES[2:]]), "line 3 is no JSON"),
        (edited(1, cassette=2), "it is of version 2"),
        (edited(1, takes=-1), "line 1: takes=-1"),
        (edited(1, takes=1e400), "line 1 at 'takes'"),
        (edited(1, team=...), "line 1 at 'team'"),
        (edited(2, kind="shell"), "line 2 at 'kind'"),
        (edited(2, request={"messages": 5}), "line 2 at 'request.messages'"),
        (edited(2, answer={"content": "x"}), "line 2 at 'answer.finish_reason'"),
        (edited(3, answer={"name": "look", "result": "x"}), "line 3 at 'answer.result'"),
        (edited(5, text=[1]), "line 5 at 'text'"),
    ],
)
def test_what_was_cut_off_or_edited_is_refused_by_its_line(text: str, reason: str) -> None:
    with pytest.raises(CassetteError) as caught:
        Cassette.parse(text)
    assert reason in str(caught.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "sea.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(CassetteError, match="byte 0 is no UTF-8"):
        Cassette.load(tmp_path / "sea.jsonl")
