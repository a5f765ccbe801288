"""Tools for models that are not offered tools by their server, or that write their calls as text.

A call is `{"name": ..., "arguments": {...}}` here; an answer without a call may be `{"answer": ...}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from callboard.foundation.json_texts import read_json, read_value
from callboard.memory.llm_messages import FunctionCall

from .answer import make_call
from .markup import FENCED, without_fence
from .schema import definitions_of, renamed_references

ANSWER: Final = "answer"
NAME_KEYS: Final = ("name", "tool", "tool_name", "function")
ARGUMENT_KEYS: Final = ("arguments", "parameters", "args", "input")
# As the templates of Hermes, Qwen and others have it.
TAGGED: Final = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)

PROSE: Final = object()  # something that is no JSON
CALL_FORMAT: Final = '{"name": "<name of the tool>", "arguments": {<its arguments>}}'


def instructions(tools: Sequence[Mapping[str, Any]], *, as_schema: bool) -> str:
    """The description of the tools for the model's system message.

    Args:
        tools: ToolSchemas.
        as_schema: whether every answer is held to a schema, and so is JSON.
    """
    lines = ["You can call these tools; each line is the JSON schema of one:"]
    lines += [json.dumps(_described(tool), ensure_ascii=False) for tool in tools]
    lines.append(f"To call a tool, answer with nothing but {CALL_FORMAT}")
    if as_schema:
        lines.append(f'To answer without calling a tool, answer with {{"{ANSWER}": <your answer>}}')
    else:
        lines.append("When no tool helps, answer as usual.")
    return "\n".join(lines)


def _described(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tool[key] for key in ("name", "description", "parameters") if tool.get(key)}


def reply_schema(
    tools: Sequence[Mapping[str, Any]], answer: Mapping[str, Any] | None, *, required: bool
) -> dict[str, Any]:
    """The schema of an answer that is a call of one of the tools, or an answer.

    Args:
        tools: ToolSchemas.
        answer: schema of the answer; None: any text.
        required: whether it has to be a call.
    """
    choices: list[dict[str, Any]] = []
    definitions: dict[str, Any] = {}
    for tool in tools:
        prefix = f"{tool['name']}."
        parameters = tool.get("parameters") or {"type": "object", "properties": {}}
        arguments = renamed_references(parameters, prefix)
        definitions.update(definitions_of(parameters, prefix))
        choices.append(_object(name={"const": tool["name"]}, arguments=arguments))
    if not required:
        given = answer or {"type": "string"}
        choices.append(_object(**{ANSWER: renamed_references(given, f"{ANSWER}.")}))
        definitions.update(definitions_of(given, f"{ANSWER}."))
    return {"anyOf": choices, **({"$defs": definitions} if definitions else {})}


def _object(**properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def call_as_text(call: FunctionCall) -> str:
    """A call as the model is to write it, for the history of a conversation."""
    return json.dumps({"name": call.name, "arguments": loaded(call.arguments)}, ensure_ascii=False)


def loaded(arguments: str) -> Any:
    """What arguments say; the text itself where it is no JSON."""
    try:
        return read_json(arguments)
    except ValueError:
        return arguments


def read_reply(text: str, names: Sequence[str]) -> tuple[tuple[FunctionCall, ...], str]:
    """Read an answer that `reply_schema` shaped. A server may have ignored the schema, so all of `read_calls` counts.

    Returns:
        The calls, and the answer: a text, or JSON when another schema was given for it.
    """
    try:
        reply = read_json(without_fence(text))
    except ValueError:
        return read_calls(text, names)
    if isinstance(reply, dict) and reply.keys() == {ANSWER}:
        answer = reply[ANSWER]
        return (), answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    return read_calls(text, names)


def read_calls(text: str, names: Sequence[str]) -> tuple[tuple[FunctionCall, ...], str]:
    """Find tool calls in an answer.

    They are read when the whole answer is JSON, in fenced blocks, and between `<tool_call>` tags; not inside a
    sentence, where JSON may be an example. Only calls of tools that were offered count.

    Args:
        text: the answer.
        names: of the tools that were offered.

    Returns:
        The calls, and the text without them.
    """
    calls = _calls_in(without_fence(text), names)
    if calls:
        return calls, ""
    for pattern in (TAGGED, FENCED):
        found = [(match, _calls_in(match[1], names)) for match in pattern.finditer(text)]
        if any(inside for _, inside in found):
            rest = text
            for match, inside in found:
                rest = rest.replace(match[0], "") if inside else rest
            return tuple(call for _, inside in found for call in inside), rest.strip()
    return (), text


def _calls_in(text: str, names: Sequence[str]) -> tuple[FunctionCall, ...]:
    """The calls in a text that is nothing but JSON: those at its start.

    Small models go on with calls that they make up, until the limit of tokens cuts them off in the middle of one.
    """
    calls: list[FunctionCall] = []
    for value in _values(text):
        if value is PROSE:
            return ()
        call = _as_call(value, names)
        if call is None:
            break
        calls.append(call)
    return tuple(calls)


def _values(text: str) -> Iterator[Any]:
    """The JSON values of a text, one after the other, with lists and `tool_calls` opened.

    At its end None for one that is cut off or broken, PROSE for something else.
    """
    position = 0
    while position < len(text):
        try:
            value, position = read_value(text, position)
        except ValueError:
            yield None if text[position] in "{[" else PROSE
            return
        if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
            value = value["tool_calls"]
        yield from value if isinstance(value, list) else (value,)
        while position < len(text) and text[position] in " \t\r\n,;":
            position += 1


def _as_call(value: Any, names: Sequence[str]) -> FunctionCall | None:
    if not isinstance(value, dict) or "description" in value:
        return None  # with a description it is the tool's own schema, repeated
    inner = value.get("function")
    if isinstance(inner, dict):
        value = {"id": value.get("id"), **inner}
    name: str | None = next((value[key] for key in NAME_KEYS if isinstance(value.get(key), str)), None)
    arguments: Any = next((value[key] for key in ARGUMENT_KEYS if key in value), {})
    if isinstance(arguments, str):
        arguments = loaded(arguments)
    if name not in names or not isinstance(arguments, dict):
        return None
    given_id = value.get("id")
    return make_call(
        given_id if isinstance(given_id, str) else None, name, json.dumps(arguments, ensure_ascii=False)
    )


def any_call(text: str) -> FunctionCall | None:
    """The call that a text is, whatever the name of its tool; None: it is something else.

    Stricter than `read_calls`, because an answer may be JSON: `arguments` has to be there.
    """
    tagged = TAGGED.search(text)
    value = next(_values(tagged[1] if tagged else without_fence(text)), None)
    if not isinstance(value, dict) or not isinstance(value.get("arguments"), dict):
        return None
    name = value.get("name")
    return _as_call(value, (name,)) if isinstance(name, str) else None
