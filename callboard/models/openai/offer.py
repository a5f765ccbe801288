"""The tools of one request: which of them the model learns of, which it may call, and whether it has to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callboard.models.base import ToolLike, Tools
from callboard.models.errors import BadRequestError, UnsupportedFeatureError
from callboard.models.request import ModelRequest

from .calls_in_text import instructions
from .schema import strict_schema
from .settings import OpenAISettings
from .wire import is_name

ToolSchemas = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Offer:
    """What a request offers.

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
    def of(cls, request: ModelRequest, settings: OpenAISettings) -> Offer:
        """The offer of a request.

        Raises:
            BadRequestError: its tools and its choice do not fit together.
            UnsupportedFeatureError: the model takes no tools.
        """
        model, choice = settings.model, request.tool_choice
        tools = tool_schemas(request.tools, model)
        names = tuple(tool["name"] for tool in tools)
        if tools and not settings.info["function_calling"] and settings.tool_mode == "native":
            reason = "it takes no tools (model_info['function_calling']); tool_mode='schema' offers them through a schema"
            raise UnsupportedFeatureError(model, reason)
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
