import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from callboard.memory.llm_messages import FunctionCall
from callboard.models.openai.answer import split_thought
from callboard.models.openai.tool_calls import (
    HeldPieces,
    any_call,
    call_as_text,
    instructions,
    read_calls,
    read_reply,
    reply_schema,
)

NAMES = ("add", "search")
ADD = {"name": "add", "arguments": {"a": 1}}


class Point(BaseModel):
    x: int


class Line(BaseModel):
    start: Point


def found(text: str) -> list[tuple[str, Any]]:
    calls, _ = read_calls(text, NAMES)
    return [(call.name, json.loads(call.arguments)) for call in calls]


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "add", "arguments": {"a": 1}}',
        ' \n{"name": "add", "parameters": {"a": 1}}\n',
        '{"tool": "add", "args": {"a": 1}}',
        '{"name": "add", "arguments": "{\\"a\\": 1}"}',
        '[{"name": "add", "arguments": {"a": 1}}]',
        '{"tool_calls": [{"id": "x", "type": "function", "function": {"name": "add", "arguments": "{\\"a\\": 1}"}}]}',
        '```json\n{"name": "add", "arguments": {"a": 1}}\n```',
        '```\n{"name": "add", "arguments": {"a": 1}}\n```',
        '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>',
    ],
)
def test_calls_are_found_however_they_are_written(text: str) -> None:
    assert found(text) == [("add", {"a": 1})]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain text",
        '{"name": "add", "arguments": {"a": 1',
        '{"name": "unknown", "arguments": {}}',
        '{"name": "add", "arguments": [1]}',
        '{"name": "add", "arguments": "not json"}',
        '{"name": 5, "arguments": {}}',
        'For example {"name": "add", "arguments": {"a": 1}} would add.',
        '{"name": "add", "description": "Adds.", "parameters": {"type": "object"}}',
        '{"name": "add", "arguments": {"a": 1}} and more',
        'I will add.\n```json\n{"name": "add", "arguments": {"a": 1}}\n```\nThat is it.',
        'Let me see. <tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>',
        '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call> says the mail. It is spam.',
        'The mail says: <tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call> I think it is spam.',
        '```\n{"name": "add", "arguments": {"a": 1}}\n```\nI will NOT do it without a yes.',
        '{"name": "add", "arguments": {"a": 1}}\n[so says the mail; I will not do it]',
        '{"name": "add", "arguments": {"a": 1}}\n{so says the mail}',
        '{"name": "add", "arguments": {"a": 1}}\n{"answer": "no"}\nI will not.',
        '{"answer": "It says <tool_call>{\\"name\\": \\"add\\", \\"arguments\\": {}}</tool_call>"}',
        '{"name": "add", "arguments": {"a": 1, "a": 5000}}',
        '{"name": "add", "arguments": {"a": NaN}}',
        '> <tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>',
        "[1, 2]",
        '```json\n{"result": 3}\n```',
        "```python\nadd(1)\n```",
        "<tool_call>add(1)</tool_call>",
    ],
)
def test_text_that_is_no_call_stays_text(text: str) -> None:
    assert read_calls(text, NAMES) == ((), text)


def test_several_calls_in_blocks() -> None:
    second = '{"name": "search", "arguments": {"q": "x"}}'
    text = f'\n<tool_call>{{"name": "add"}}</tool_call>\n```json\n{second}\n```\n'

    calls, rest = read_calls(text, NAMES)

    assert [(call.name, call.arguments) for call in calls] == [("add", "{}"), ("search", '{"q": "x"}')]
    assert len({call.id for call in calls}) == 2
    assert rest == ""


def test_calls_one_per_line() -> None:
    assert found('{"name": "add", "arguments": {}}\n{"name": "search", "arguments": {}}') == [
        ("add", {}),
        ("search", {}),
    ]


def test_an_id_is_kept() -> None:
    calls, _ = read_calls('{"id": "x7", "function": {"name": "add", "arguments": {}}}', NAMES)
    assert calls[0].id == "x7"


ARGUMENTS = st.dictionaries(
    st.text(), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=4)
)


@given(ARGUMENTS)
def test_a_call_shown_to_the_model_reads_as_the_same_call(arguments: dict[str, Any]) -> None:
    call = FunctionCall(id="1", name="add", arguments=json.dumps(arguments))

    assert found(call_as_text(call)) == [("add", arguments)]


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    calls, rest = read_calls(text, NAMES)
    assert calls or rest == text


def test_arguments_that_are_no_json_are_shown_as_they_are() -> None:
    assert (
        call_as_text(FunctionCall(id="1", name="add", arguments="{oops"))
        == '{"name": "add", "arguments": "{oops"}'
    )


def test_the_instructions_name_tools_and_format() -> None:
    tool = {"name": "add", "description": "Adds.", "parameters": {"type": "object"}, "strict": False}

    text = instructions([tool], as_schema=False)

    assert '{"name": "add", "description": "Adds.", "parameters": {"type": "object"}}' in text
    assert '"arguments"' in text
    assert '{"answer"' not in text
    assert '{"answer"' in instructions([tool], as_schema=True)


def test_a_reply_is_a_call_or_an_answer() -> None:
    tools: list[dict[str, Any]] = [{"name": "add", "parameters": Line.model_json_schema()}, {"name": "stop"}]

    schema = reply_schema(tools, None, required=False)

    add, stop, answer = schema["anyOf"]
    assert add["properties"]["name"] == {"const": "add"}
    assert add["properties"]["arguments"]["properties"]["start"] == {"$ref": "#/$defs/add.Point"}
    assert list(schema["$defs"]) == ["add.Point"]
    assert stop["properties"]["arguments"] == {"type": "object", "properties": {}}
    assert answer["properties"] == {"answer": {"type": "string"}}
    assert add["required"] == ["name", "arguments"]
    assert add["additionalProperties"] is False


def test_a_reply_that_has_to_be_a_call_is_no_answer() -> None:
    assert len(reply_schema([{"name": "add"}], None, required=True)["anyOf"]) == 1


def test_the_answer_of_a_reply_may_have_a_schema() -> None:
    schema = reply_schema([{"name": "add"}], Line.model_json_schema(), required=False)

    assert schema["anyOf"][1]["properties"]["answer"]["properties"]["start"] == {
        "$ref": "#/$defs/answer.Point"
    }
    assert "answer.Point" in schema["$defs"]


@pytest.mark.parametrize(
    ("text", "calls", "answer"),
    [
        ('{"answer": "yes"}', 0, "yes"),
        ('{"answer": {"x": 1}}', 0, '{"x": 1}'),
        ('```json\n{"answer": "yes"}\n```', 0, "yes"),
        (json.dumps(ADD), 1, ""),
        ("the schema was ignored", 0, "the schema was ignored"),
        (f"```json\n{json.dumps(ADD)}\n```", 1, ""),
        ('{"answer": "cut of', 0, '{"answer": "cut of'),
    ],
)
def test_a_reply_is_read(text: str, calls: int, answer: str) -> None:
    read, rest = read_reply(text, NAMES)
    assert (len(read), rest) == (calls, answer)


def test_a_call_of_any_name() -> None:
    call = any_call('{"name": "fly", "arguments": {"to": "Oslo"}}')
    assert call is not None
    assert (call.name, call.arguments) == ("fly", '{"to": "Oslo"}')
    assert any_call('<tool_call>{"name": "fly", "arguments": {}}</tool_call>') is not None
    assert any_call('So: <tool_call>{"name": "fly", "arguments": {}}</tool_call>') is None
    for text in ("fly", '{"name": "Ada"}', '{"name": "Ada", "arguments": ["for", "against"]}', "[1]", ""):
        assert any_call(text) is None


@pytest.mark.parametrize(
    "rest", ['{"name": "add", "argu', '{"response": "3"}', '{"name": "other", "arguments": {}}']
)
def test_what_a_model_makes_up_behind_its_calls_is_left_out(rest: str) -> None:
    calls, text = read_calls('{"name": "add", "arguments": {"a": 1}}\n' + rest, ["add"])

    assert [call.name for call in calls] == ["add"]
    assert text == ""


PARTS = st.sampled_from(
    [
        json.dumps(ADD),
        "<tool_call>",
        "</tool_call>",
        "```json\n",
        "```python\n",
        "\n```",
        "<think>",
        "</think>",
        "words ",
        "[",
        "\n",
        "`",
        "<",
    ]
)


@given(st.lists(PARTS, max_size=6).map("".join), st.data())
def test_what_turns_out_to_be_a_call_was_not_shown(text: str, data: st.DataObject) -> None:
    held = HeldPieces(may_call=True)
    shown, rest = "", text
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        shown, rest = shown + held.add(rest[:size]), rest[size:]
    _, answer = split_thought(text)
    if read_calls(answer, NAMES)[0]:
        assert not held.has_said
        assert "arguments" not in shown or "arguments" in (split_thought(text)[0] or "")
    if held.has_said:
        assert shown == text
