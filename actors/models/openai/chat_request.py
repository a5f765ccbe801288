"""One request to the chat API, and the meaning of its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from callboard.memory.llm_messages import FunctionCall
from callboard.models.base import ToolLike, Tools
from callboard.models.errors import BadRequestError, BadResponseError, UnsupportedFeatureError
from callboard.models.family import ModelFamily
from callboard.models.request import ModelRequest
from callboard.models.types import CreateResult, FinishReasons

from .answer import Answer
from .calls_in_text import instructions, read_calls, read_reply, reply_schema
from .markup import split_thought
from .output import Output, OutputFormat, schema_format
from .schema import strict_schema
from .settings import REQUEST_ARGUMENTS, OpenAISettings, check_arguments
from .transform import Transformer
from .wire import is_name

FINISH_REASONS: Final[Mapping[str, FinishReasons]] = {
    "stop": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "function_calls",
    "function_call": "function_calls",
    "function_calls": "function_calls",
    "content_filter": "content_filter",
}
REPLY_SCHEMA_NAME: Final = "reply"

ToolSchemas = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request as the API takes it.

    Attributes:
        arguments: of the openai package's `create`.
        output: the form of the answer.
        tools: names of the tools that are offered.
    """

    settings: OpenAISettings
    arguments: Mapping[str, Any]
    output: Output
    tools: tuple[str, ...]

    @classmethod
    def of(cls, request: ModelRequest, settings: OpenAISettings) -> ChatRequest:
        """Make it of a request to a client.

        Raises:
            BadRequestError: its parts do not fit together.
            UnsupportedFeatureError: the model can't do it.
        """
        extra = dict(request.extra_create_args)
        check_arguments(settings.model, extra, REQUEST_ARGUMENTS)
        tools, required = _choice(request, settings)
        output = Output(settings.model, _format(request, extra, settings))
        output.check(settings.info)
        as_schema = settings.tool_mode == "schema"
        told = None
        if tools and settings.tells_tools_in_text:
            told = instructions(tools, as_schema=as_schema, required=required)
        arguments: dict[str, Any] = {"model": settings.model, **settings.create_arguments, **extra}
        arguments["messages"] = Transformer(settings).messages(request.messages, told)
        arguments["response_format"] = _response_format(tools if as_schema else (), output, required)
        if tools and told is None:
            arguments |= _tool_arguments(request, tools, settings)
        given = {name: value for name, value in arguments.items() if value is not None}
        return cls(settings, given, output, tuple(tool["name"] for tool in tools))

    def stream_arguments(self, include_usage: bool | None) -> dict[str, Any]:
        """The arguments for a stream."""
        usage = self.settings.include_stream_usage if include_usage is None else include_usage
        options = {**({"include_usage": True} if usage else {}), **self.arguments.get("stream_options", {})}
        return {**self.arguments, "stream": True, **({"stream_options": options} if options else {})}

    @property
    def streams_text(self) -> bool:
        """Whether pieces of the answer are the answer's text, and not JSON around it."""
        return not (self.tools and self.settings.tool_mode == "schema")

    def result(self, answer: Answer | None) -> CreateResult:
        """The result that the answer means.

        Raises:
            BadResponseError: there is none, or it has another form than was asked for.
        """
        if answer is None:
            raise BadResponseError(self.settings.model, "the answer has no choices")
        thought, text = answer.reasoning or None, answer.text
        if thought is None:
            thought, text = split_thought(text, opened=self.settings.info["family"] == ModelFamily.R1)
        calls = answer.calls
        if not calls and self.tools:
            calls, text = self._read(text)
        finish: FinishReasons = FINISH_REASONS.get((answer.finish or "").lower(), "unknown")
        if calls:
            thought = "\n".join(part for part in (thought, text.strip()) if part) or None
        elif answer.refusal:
            text, finish = answer.refusal, "content_filter"
        elif finish != "content_filter":
            text = self.output.checked(text, cut_off=finish == "length")
        return CreateResult(
            finish_reason="function_calls" if calls else finish,
            content=list(calls) if calls else text,
            usage=answer.usage,
            cached=False,
            logprobs=None if answer.logprobs is None else list(answer.logprobs),
            thought=thought,
        )

    def _read(self, text: str) -> tuple[tuple[FunctionCall, ...], str]:
        if self.settings.tool_mode == "schema":
            return read_reply(text, self.tools)
        if self.settings.tool_mode == "lenient":
            return read_calls(text, self.tools)
        return (), text


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


def _choice(request: ModelRequest, settings: OpenAISettings) -> tuple[ToolSchemas, bool]:
    """The tools to offer, and whether one has to be called."""
    model, choice = settings.model, request.tool_choice
    tools = tool_schemas(request.tools, model)
    if tools and not settings.info["function_calling"] and settings.tool_mode == "native":
        reason = "it takes no tools (model_info['function_calling']); tool_mode='schema' offers them through a schema"
        raise UnsupportedFeatureError(model, reason)
    if isinstance(choice, str):
        if choice not in ("auto", "required", "none"):
            raise BadRequestError(model, f"tool_choice={choice!r} is neither auto, required, none nor a tool")
        if choice == "required" and not tools:
            raise BadRequestError(model, "tool_choice='required' without tools: give some, or choose 'auto'")
        offered = () if choice == "none" and settings.tells_tools_in_text else tools
        return offered, choice == "required"
    if choice.name not in {tool["name"] for tool in tools}:
        raise BadRequestError(model, f"tool_choice is {choice.name!r}, which is not among the tools")
    if settings.tells_tools_in_text:
        tools = [tool for tool in tools if tool["name"] == choice.name]
    return tools, True


def _format(request: ModelRequest, extra: Mapping[str, Any], settings: OpenAISettings) -> OutputFormat:
    """The form of the answer: by this request's arguments, else by `json_output`, else by the client's arguments."""
    if "response_format" in extra:
        given: OutputFormat = extra["response_format"]
        return given
    if request.json_output is not None:
        return request.json_output
    return settings.create_arguments.get("response_format")


def _response_format(tools: ToolSchemas, output: Output, required: bool) -> Mapping[str, Any] | None:
    if not tools:
        return output.response_format()
    answer = None if output.class_ is None else output.class_.model_json_schema()
    schema = reply_schema(tools, answer, required=required)
    # Not made strict: a tool's optional arguments stay optional, and servers hold models to the schema nevertheless.
    return schema_format(REPLY_SCHEMA_NAME, schema, strict=False)


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
