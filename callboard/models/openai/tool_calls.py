"""Tools of a request: their strict schemas, which are offered, calls written as text, and objections.

In a strict schema every object lists all its properties as required and allows no others (OpenAI's guide to structured
outputs).

A call that is written as text is `{"name": ..., "arguments": {...}}`; an answer without a call may be `{"answer": ...}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from callboard.foundation.texts import read_json, read_value
from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResultMessage,
    LLMMessage,
    UserMessage,
)
from callboard.models.base import ModelRequest, ToolLike, Tools
from callboard.models.errors import BadRequestError, BadResponseError

from .answer import CLOSING, FENCED, OPENING, is_name, make_call, without_fence
from .settings import OpenAISettings

DEFINITIONS: Final = ("$defs", "definitions")
_MAPS_OF_SCHEMAS: Final = ("properties", *DEFINITIONS)
_LISTS_OF_SCHEMAS: Final = ("anyOf", "allOf", "oneOf", "prefixItems")
_SCHEMAS: Final = ("items", "not")

Schema: TypeAlias = Mapping[str, Any]
Change: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


def strict_schema(schema: Schema) -> dict[str, Any] | None:
    """A schema in which every object is closed and requires all its properties.

    Args:
        schema: such as a pydantic model makes. Not changed.

    Returns:
        The strict schema; None when there is none, because an object may have any keys.
    """
    if _has_open_object(schema):
        return None
    return _mapped_object(_with_object_at_root(schema), _closed)


def _with_object_at_root(schema: Schema) -> Schema:
    """A recursive class is a reference to one of its own definitions; the API wants an object there."""
    reference = schema.get("$ref")
    if reference is None:
        return schema
    return {**schema["$defs"][reference.rpartition("/")[2]], "$defs": schema["$defs"]}


def renamed_references(schema: Schema, prefix: str) -> dict[str, Any]:
    """A schema without its definitions, whose references lead to `#/$defs/<prefix><name>`."""
    bare = {key: value for key, value in schema.items() if key not in DEFINITIONS}
    return _mapped_object(bare, lambda part: _with_prefix(part, prefix))


def definitions_of(schema: Schema, prefix: str) -> dict[str, Any]:
    """The definitions of a schema by their names behind a prefix, for `renamed_references`."""
    return {
        prefix + name: renamed_references(definition, prefix)
        for key in DEFINITIONS
        for name, definition in schema.get(key, {}).items()
    }


def _mapped(schema: Any, change: Change) -> Any:
    """As `_mapped_object`; `true` and `false` are schemas, too."""
    return _mapped_object(schema, change) if isinstance(schema, Mapping) else schema


def _mapped_object(schema: Schema, change: Change) -> dict[str, Any]:
    """The schema with a change made to it and to every schema inside."""
    result = dict(schema)
    for key in _MAPS_OF_SCHEMAS:
        if key in result:
            result[key] = {name: _mapped(part, change) for name, part in result[key].items()}
    for key in _LISTS_OF_SCHEMAS:
        if key in result:
            result[key] = [_mapped(part, change) for part in result[key]]
    for key in _SCHEMAS:
        if key in result:
            result[key] = _mapped(result[key], change)
    return change(result)


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    # A default says that a value may be left out, which nothing may be.
    closed = {key: value for key, value in schema.items() if key != "default"}
    if "properties" in closed:
        closed["additionalProperties"] = False
        closed["required"] = list(closed["properties"])
    if "oneOf" in closed:
        closed["anyOf"] = [*closed.pop("oneOf"), *closed.get("anyOf", ())]
        closed.pop("discriminator", None)
    if len(closed.get("allOf", ())) == 1:
        (only,) = closed.pop("allOf")
        closed = {**only, **closed}
    # Beside a reference nothing else is allowed.
    return {"$ref": closed["$ref"]} if "$ref" in closed else closed


def _has_open_object(schema: Schema) -> bool:
    found = False

    def look(part: dict[str, Any]) -> dict[str, Any]:
        nonlocal found
        extra = part.get("additionalProperties", False)
        nothing_listed = part.get("type") == "object" and "properties" not in part
        found = found or extra is True or isinstance(extra, Mapping) or nothing_listed
        return part

    _mapped_object(schema, look)
    return found


def _with_prefix(schema: dict[str, Any], prefix: str) -> dict[str, Any]:
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    return {**schema, "$ref": f"#/$defs/{prefix}{reference.rpartition('/')[2]}"}


# Calls as text

ANSWER: Final = "answer"
NAME_KEYS: Final = ("name", "tool", "tool_name", "function")
ARGUMENT_KEYS: Final = ("arguments", "parameters", "args", "input")
# As the templates of Hermes, Qwen and others have it.
TAG: Final = "<tool_call>"
TAGGED: Final = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)

WORDS: Final = (
    "true",
    "false",
    "null",
    "-",
)  # with which a value of JSON may begin that is not there to its end
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
    """Arguments as data; the text itself where it is no JSON."""
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
    """The tool calls that an answer is.

    They are read where nothing else is said: the whole answer is JSON, fenced blocks, or text between `<tool_call>` tags.
    Beside other words a call may be an example, or what a mail says that the model quotes. Only calls of tools that were
    offered count.

    Args:
        text: the answer.
        names: of the tools that were offered.

    Returns:
        The calls, and the text that is the answer where there are none.
    """
    calls = _calls_in(without_fence(text), names)
    if not calls:
        # guard: a call that an answer quotes is not made
        calls = _calls_in("\n".join(_blocks(text)), names)
    return (calls, "") if calls else ((), text)


def _blocks(text: str) -> tuple[str, ...]:
    """The insides of tagged and fenced blocks, where a text has nothing else."""
    blocks: list[str] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        position += len(text[position:]) - len(text[position:].lstrip())
        found = TAGGED.match(text, position) or FENCED.match(text, position)
        if found is None:
            return ()
        blocks.append(found[1])
        position = found.end()
    return tuple(blocks)


def _calls_in(text: str, names: Sequence[str]) -> tuple[FunctionCall, ...]:
    """The calls in a text that is nothing but JSON: those at its start.

    Small models go on with calls that they make up, until the limit of tokens cuts them off in the middle of one.
    """
    calls: list[FunctionCall] = []
    has_ended = False
    for value in _values(text):
        if value is PROSE:
            return ()
        call = None if has_ended else _as_call(value, names)
        has_ended = call is None
        if call is not None:
            calls.append(call)
    return tuple(calls)


def _values(text: str) -> Iterator[Any]:
    """The JSON values of a text, one after the other, with lists and `tool_calls` opened.

    At its end None for one that is cut off, PROSE for something else.
    """
    position = 0
    while position < len(text):
        try:
            value, position = read_value(text, position)
        except ValueError as error:
            yield None if _is_cut_off(text, position, error) else PROSE
            return
        if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
            value = value["tool_calls"]
        yield from value if isinstance(value, list) else (value,)
        while position < len(text) and text[position] in " \t\r\n,;":
            position += 1


def _is_cut_off(text: str, position: int, error: ValueError) -> bool:
    """Whether an object or a list is JSON up to the end of the text: words in brackets are none."""
    if text[position] not in "{[" or not isinstance(error, json.JSONDecodeError):
        return False
    rest = text[error.pos :].strip()
    return error.msg.startswith("Unterminated string") or any(word.startswith(rest) for word in WORDS)


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
    blocks = _blocks(text)
    values = list(_values(blocks[0] if blocks else without_fence(text)))
    value = None if PROSE in values[1:] else next(iter(values), None)
    if not isinstance(value, dict) or not isinstance(value.get("arguments"), dict):
        return None
    name = value.get("name")
    return _as_call(value, (name,)) if isinstance(name, str) else None


class HeldPieces:
    """Pieces of a stream, held back while all of the answer may still be a call.

    A call that its readers have seen as text could not be taken back, and the model not be told that it goes round in
    circles. Reasoning at the start is passed on.

    Args:
        may_call: whether a text may be a call at all; if not, every piece is passed on.

    Attributes:
        has_said: whether anything was passed on that is part of an answer.
    """

    def __init__(self, *, may_call: bool) -> None:
        self._head = ""  # what is held back while it is not known what it is
        self._is_open = not may_call
        self._may_think = True
        self._thinks = False
        self.has_said = False

    def add(self, piece: str) -> str:
        """Take a piece; returns what can be passed on."""
        if self._is_open:
            self.has_said = True
            return piece
        self._head += piece
        thought = self._thought() if self._may_think else ""
        if not self._may_think and not may_be_call(self._head):
            self._is_open = self.has_said = True
            said, self._head = self._head, ""
            return thought + said
        return thought

    def _thought(self) -> str:
        """What of the head is reasoning; the rest stays."""
        if not self._thinks:
            begins = self._head.lstrip()
            if OPENING.startswith(begins):
                return ""
            self._thinks = begins.startswith(OPENING)
            if not self._thinks:
                self._may_think = False
                return ""
        end = self._head.find(CLOSING)
        # The end of the reasoning may itself come in pieces.
        at = max(0, len(self._head) - len(CLOSING) + 1) if end < 0 else end + len(CLOSING)
        self._may_think = end < 0
        thought, self._head = self._head[:at], self._head[at:]
        return thought


MAY_BE_FENCE: Final = re.compile(r"`{1,2}|```[ \t]*([a-z_]*)[ \t]*")
LANGUAGES: Final = ("json", "tool_call", "tool_calls", "tool_code")


def may_be_call(beginning: str) -> bool:
    """Whether an answer that begins so may turn out to be calls and nothing else."""
    text = beginning.lstrip()
    if not text or text[0] in "{[":
        return True
    if text[0] == "<":
        return TAG.startswith(text[: len(TAG)])
    line, is_whole, _ = text.partition("\n")
    fence = MAY_BE_FENCE.fullmatch(line)
    if fence is None:
        return False
    language = fence[1] or ""
    return language in ("", *LANGUAGES) if is_whole else any(one.startswith(language) for one in LANGUAGES)


# What is offered

ToolSchemas = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """Tools that a request offers.

    Attributes:
        tools: all tools, as ToolSchemas.
        callable: names of those that may be called: all, none, or the one that has to be.
        required: whether one of them has to be called.
    """

    settings: OpenAISettings
    tools: ToolSchemas
    callable: tuple[str, ...]
    required: bool

    @classmethod
    def of(cls, request: ModelRequest, settings: OpenAISettings) -> ToolOffer:
        """The offer of a request.

        Raises:
            BadRequestError: its tools and its choice do not fit together, or the model takes no tools.
        """
        model, choice = settings.model, request.tool_choice
        tools = tool_schemas(request.tools, model)
        names = tuple(tool["name"] for tool in tools)
        if tools and not settings.info["function_calling"] and settings.tool_mode == "native":
            reason = "it takes no tools (model_info['function_calling']); tool_mode='schema' offers them through a schema"
            raise BadRequestError(model, reason)
        if not isinstance(choice, str):
            if choice.name not in names:
                raise BadRequestError(model, f"tool_choice is {choice.name!r}, which is not among the tools")
            return cls(settings, tools, (choice.name,), required=True)
        if choice not in ("auto", "required", "none"):
            raise BadRequestError(model, f"tool_choice={choice!r} is neither auto, required, none nor a tool")
        if choice == "required" and not tools:
            raise BadRequestError(model, "tool_choice='required' without tools: give some, or choose 'auto'")
        return cls(settings, tools, () if choice == "none" else names, required=choice == "required")

    @property
    def in_words(self) -> str | None:
        """The description of the tools for the model; None: its server takes them, or there are none.

        The same whatever the choice, so that what the server has read of a conversation stays the same.
        """
        if not self.tools or not self.settings.tells_tools_in_text:
            return None
        return instructions(self.tools, as_schema=self.settings.tool_mode == "schema")

    @property
    def closing(self) -> str | None:
        """The choice, in words; None: the model may choose, or its server takes the choice."""
        if self.in_words is None or (self.callable and not self.required):
            return None
        if not self.callable:
            return "Answer now, without calling a tool."
        return f"Call a tool now: {' or '.join(self.callable)}."

    @property
    def called(self) -> ToolSchemas:
        """The schemas of those that may be called."""
        return [tool for tool in self.tools if tool["name"] in self.callable]

    def arguments(self, request: ModelRequest) -> dict[str, Any]:
        """The arguments of the API, where its server takes tools.

        Raises:
            BadRequestError: a tool's schema can't be strict and says so.
        """
        if not self.tools or self.settings.tells_tools_in_text:
            return {}
        return _tool_arguments(request, self.tools, self.settings)


def tool_schemas(tools: Tools, model: str) -> ToolSchemas:
    """The ToolSchemas of tools.

    Raises:
        BadRequestError: a name that the API does not take, or one name twice.
    """
    schemas = [tool if isinstance(tool, Mapping) else getattr(tool, "schema", None) for tool in tools]
    names: set[str] = set()
    for tool, schema in zip(tools, schemas, strict=True):
        if not isinstance(schema, Mapping) or not isinstance(schema.get("name"), str):
            raise BadRequestError(
                model, f"{type(tool).__name__} is no tool: give a Tool or a ToolSchema with a name"
            )
        name = schema["name"]
        if not is_name(name):
            rule = "the API takes letters, digits, _ and -, at most 64"
            raise BadRequestError(model, f"{name!r} can't be the name of a tool: {rule}")
        if name in names:
            raise BadRequestError(model, f"two tools are called {name!r}: give one of them another name")
        names.add(name)
    return [schema for schema in schemas if schema is not None]


def _tool_arguments(request: ModelRequest, tools: ToolSchemas, settings: OpenAISettings) -> dict[str, Any]:
    arguments: dict[str, Any] = {"tools": [_wire_tool(tool, settings.model) for tool in tools]}
    choice = request.tool_choice
    if isinstance(choice, ToolLike):
        arguments["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
    elif choice != "auto":
        arguments["tool_choice"] = choice
    if settings.parallel_tool_calls is not None and "parallel_tool_calls" not in request.extra_create_args:
        arguments["parallel_tool_calls"] = settings.parallel_tool_calls
    return arguments


def _wire_tool(tool: Mapping[str, Any], model: str) -> dict[str, Any]:
    parameters = tool.get("parameters") or {"type": "object", "properties": {}}
    function = {"name": tool["name"], "description": tool.get("description", "")}
    if not tool.get("strict", False):
        return {"type": "function", "function": {**function, "parameters": parameters}}
    strict = strict_schema(parameters)
    if strict is None:
        reason = f"tool {tool['name']!r} can't be strict: an object in its parameters may have any keys"
        raise BadRequestError(model, f"{reason}. Name them, or leave strict out")
    return {"type": "function", "function": {**function, "parameters": strict, "strict": True}}


# Objections

LONGEST_RESULT: Final = 500  # characters of a result that are told again; all of it stands above
Identity = tuple[str, str]  # of a call: name and arguments


@dataclass(frozen=True, slots=True)
class Objection:
    """A reason to ask again.

    Attributes:
        error: raised when the model is not asked again, and the answer is not usable.
        sentence: for the model.
        ends_calls: whether it is not to call a tool now, so that none is offered.
    """

    error: BadResponseError
    sentence: str
    ends_calls: bool = False


@dataclass(frozen=True, slots=True)
class KnownCalls:
    """Calls and results that a conversation holds.

    Attributes:
        known: names of tools that the model knows of: those of this request, and those that it called before.
        answered: calls since the last question -> their results.
    """

    known: frozenset[str]
    answered: Mapping[Identity, str]

    @classmethod
    def of(cls, messages: Sequence[LLMMessage], tools: Sequence[Mapping[str, Any]]) -> KnownCalls:
        """Calls and results of these messages."""
        calls = [call for message in messages for call in _calls_of(message)]
        known = frozenset({tool["name"] for tool in tools} | {call.name for call in calls})
        asked = max((at for at, one in enumerate(messages) if isinstance(one, UserMessage)), default=0)
        results = {
            result.call_id: result.content
            for message in messages[asked:]
            if isinstance(message, FunctionExecutionResultMessage)
            for result in message.content
        }
        return cls(known, {_identity(call): results[call.id] for call in calls if call.id in results})

    def new(self, calls: Sequence[FunctionCall]) -> tuple[FunctionCall, ...]:
        """Those calls that have no result yet: small models repeat the others, and would go round in circles."""
        return tuple(call for call in calls if _identity(call) not in self.answered)

    def repeated(self, model: str, calls: Sequence[FunctionCall]) -> Objection:
        """The objection to calls of which at least one has its result."""
        known = [call for call in calls if _identity(call) in self.answered]
        results = {call.name: self.answered[_identity(call)] for call in known}
        told = " ".join(
            f"The result of {name} is: {text[:LONGEST_RESULT]}." for name, text in results.items()
        )
        error = BadResponseError(model, f"{', '.join(results)} was called again")
        return Objection(error, f"{told} Now answer my question with it, in words.", ends_calls=True)

    def unoffered(self, model: str, call: FunctionCall) -> Objection:
        """The objection to a call where none can be made; it names the result that is there."""
        return (
            self.repeated(model, [call]) if _identity(call) in self.answered else unoffered_call(model, call)
        )

    def stray_call(self, model: str, text: str, offered: Collection[str]) -> Objection | None:
        """A text that is nothing but a call, of a tool that can't be called now; None: it is something else."""
        call = any_call(text) if self.known else None
        if call is None:
            return None
        if not offered:
            return self.unoffered(model, call)
        names = ", ".join(sorted(offered))
        error = BadResponseError(model, f"the answer is a call of {call.name}, and there are only {names}")
        return Objection(
            error, f"There is no tool {call.name}, only {names}. Call one of these, or answer in words."
        )


def unoffered_call(model: str, call: FunctionCall) -> Objection:
    """The objection to a call where none can be made."""
    sentence = "You can't call a tool now. Answer my question in words, with what you know."
    error = BadResponseError(model, f"the answer is a call of {call.name}, and no tool was offered")
    return Objection(error, sentence, ends_calls=True)


def _calls_of(message: LLMMessage) -> Sequence[FunctionCall]:
    if isinstance(message, AssistantMessage) and not isinstance(message.content, str):
        return message.content
    return ()


def _identity(call: FunctionCall) -> tuple[str, str]:
    return call.name, json.dumps(loaded(call.arguments), sort_keys=True)
