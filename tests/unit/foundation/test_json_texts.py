"""JSON that a model or a person wrote."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from callboard.core.answers import APPROVAL, answer_of
from callboard.errors import InputValueError
from callboard.foundation.texts import MAX_DEPTH, NestingError, read_json, read_value
from callboard.groupchat.replies import execute
from callboard.memory.llm_messages import FunctionCall
from callboard.models.openai.tool_calls import any_call, call_as_text, read_calls, read_reply
from callboard.models.types import extract_json_from_str
from callboard.teams.errors import SpeakerChoiceError
from callboard.teams.magentic_one import read_ledger
from callboard.tools.call import written_arguments
from callboard.tools.errors import ToolArgumentsError

DEEP = "[" * 100_000
CLOSED = f'{{"arguments": {DEEP}{"]" * 100_000}}}'


def _nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_what_is_nested_as_deep_as_it_may_be_is_read() -> None:
    assert read_json(f"[{_nested(MAX_DEPTH - 1)}, 1, {_nested(3)}]")[1] == 1
    assert read_value('x {"a": []} y', 2) == ({"a": []}, 11)


@pytest.mark.parametrize(
    "text", [_nested(MAX_DEPTH + 1), '{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), DEEP, CLOSED]
)
def test_what_is_nested_deeper_is_refused(text: str) -> None:
    with pytest.raises(NestingError, match="nested deeper than 100 lists"):
        read_json(text)
    with pytest.raises(NestingError):
        read_value(text, 0)


def test_many_brackets_beside_each_other_are_not_deep() -> None:
    assert len(read_json(f"[{','.join(['[]'] * 1000)}]")) == 1000


@pytest.mark.parametrize("text", [DEEP, CLOSED])
def test_who_reads_what_a_model_wrote_says_what_is_wrong_with_it(text: str) -> None:
    call = FunctionCall(id="1", name="add", arguments=text)
    refusals: list[tuple[Callable[[], Any], type[Exception]]] = [
        (lambda: written_arguments(call), ToolArgumentsError),
        (lambda: read_ledger(text, ["ada"]), SpeakerChoiceError),
        (lambda: extract_json_from_str(text), ValueError),
        (lambda: answer_of(text, "i", (), {"type": "array"}, {}), InputValueError),
        (lambda: answer_of(text, "i", (), {"type": "object"}, {"kind": APPROVAL}), InputValueError),
    ]
    for read, error in refusals:
        with pytest.raises(error):
            read()


async def _add(arguments: Mapping[str, Any]) -> None:
    raise AssertionError("it is called with nothing that can't be read")


@pytest.mark.parametrize("text", [DEEP, CLOSED])
def test_who_looks_for_calls_in_a_text_takes_it_for_none(text: str) -> None:
    assert read_reply(text, ["add"]) == ((), text)
    assert read_calls(f"<tool_call>{text}</tool_call>", ["add"])[0] == ()
    assert any_call(text) is None
    assert text[:50] in call_as_text(FunctionCall(id="1", name="add", arguments=text)).replace('\\"', '"')
    done, said = asyncio.run(execute({"add": _add}, "add", text))
    assert not done
    assert "must be in JSON format" in said


@pytest.mark.parametrize(
    "text",
    ['{"a": NaN}', "[Infinity]", "-Infinity", "1e999", '{"a": 1, "a": 2}', '[{"b": {"c": 1, "c": 1}}]'],
)
def test_what_two_readers_may_read_differently_is_no_json(text: str) -> None:
    with pytest.raises(ValueError, match=r"twice|is no number of JSON"):
        read_json(text)
    with pytest.raises(ValueError, match=r"twice|is no number of JSON"):
        read_value(text, 0)
    assert read_json(text, is_strict=False) is not None
