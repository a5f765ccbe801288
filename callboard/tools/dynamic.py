"""A workbench whose tools come and go while it is used, and the documentation of a tool as Markdown."""

from __future__ import annotations

import inspect
import json
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from .base import Tool
from .errors import ToolDeclarationError, UnknownToolError, duplicate_tool, not_a_tool, unloadable
from .ranking import ToolIndex, ToolVectors, joined
from .schema import ToolSchema, check_description, check_name
from .static import STATE_VERSION, CallingStreamWorkbench, states_of
from .workbench import DEFAULT_LIMITS, ResultLimits

if TYPE_CHECKING:
    from callboard.memory.embedders import Embedder


def document(schema: ToolSchema, details: str | None = None) -> str:
    """The purpose and the arguments of a tool.

    Args:
        schema: The tool's.
        details: More about it, such as a docstring; it comes after the description.
    """
    lines = [f"# {schema['name']}", "", schema.get("description", "") or "No description."]
    if details and details.strip() != schema.get("description", "").strip():
        lines += ["", details.strip()]
    parameters = schema.get("parameters")
    properties = parameters["properties"] if parameters else {}
    lines += ["", "Arguments:" if properties else "It takes no arguments."]
    required = parameters.get("required", ()) if parameters else ()
    for name, part in properties.items():
        lines.append(_argument(name, part if isinstance(part, dict) else {}, name in required))
    return "\n".join(lines)


def _argument(name: str, part: dict[str, Any], is_required: bool) -> str:
    about = [_kind(part)]
    if is_required:
        about.append("required")
    elif "default" in part:
        about.append(f"default {json.dumps(part['default'], ensure_ascii=False)}")
    description = part.get("description", "")
    return f"- `{name}` ({', '.join(about)})" + (
        f": {description}" if description and description != name else ""
    )


def _kind(part: dict[str, Any]) -> str:
    """The type of an argument in a few words."""
    if "enum" in part:
        return "one of " + ", ".join(json.dumps(value, ensure_ascii=False) for value in part["enum"])
    if "const" in part:
        return json.dumps(part["const"], ensure_ascii=False)
    for union in ("anyOf", "oneOf"):
        if union in part:
            return " or ".join(dict.fromkeys(_kind(option) for option in part[union]))
    if "$ref" in part:
        return str(part["$ref"]).rpartition("/")[2]
    if part.get("type") == "array":
        return f"list of {_kind(part.get('items') or {})}"
    if part.get("type") == "object":
        fields = ", ".join(part.get("properties", ()))
        return f"object with {fields}" if fields else "object"
    return str(part.get("type", "anything"))


MAX_TOOLS: Final = 1000
MAX_ENABLED: Final = 128  # what OpenAI's API takes in one request
STATE: Final = "DynamicWorkbenchState"


class DynamicWorkbench(CallingStreamWorkbench):
    """Tools that are added, removed, enabled and disabled at run time, searched for and looked up.

    After the workbench proposal of AutoGen #4721, whose names it keeps, with every check on every way in. Models are
    shown enabled tools only, and a disabled one can't be called. A call that runs is not disturbed by its tool being
    removed or disabled. Agents may share one.

    Args:
        tools: Tools to begin with, all enabled.
        max_tools: The most tools that it may hold.
        max_enabled: The most tools that may be enabled at a time.
        timeout: Seconds until a call is given up, for tools without a limit of their own; None: no limit.
        limits: How large results may be.
        embedder: Makes vectors of texts, such as `quick_embedder()`, for `search` and `search_for_context`; None: they
            go by words alone.
        name: For people, as in AG2's proposal; nothing depends on it.

    Raises:
        ToolDeclarationError: As `add_tool`.
    """

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        *,
        max_tools: int = MAX_TOOLS,
        max_enabled: int = MAX_ENABLED,
        timeout: float | None = None,
        limits: ResultLimits = DEFAULT_LIMITS,
        embedder: Embedder | None = None,
        name: str = "",
    ) -> None:
        super().__init__(timeout, limits)
        self.name = name
        self._tools: dict[str, Tool] = {}
        self._enabled: set[str] = set()
        self._index = ToolIndex()
        self._vectors = None if embedder is None else ToolVectors(embedder)
        self._max_tools = max_tools
        self._max_enabled = max_enabled
        for tool in tools:
            self.add_tool(tool)

    # Coming and going

    def add_tool(self, tool: Tool, enabled: bool = True) -> None:
        """Add a tool.

        Args:
            tool: The tool. Its name is an ASCII identifier of at most 64 characters and no keyword, its description
                has at most 1,024 characters.
            enabled: Models are shown it.

        Raises:
            ToolDeclarationError: It is none (a TypeError); or it can't be shown to models, there is one of its name, or
                there are too many (a ValueError).
        """
        if not isinstance(tool, Tool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise not_a_tool(tool)
        name = check_name(tool.name)
        check_description(name, tool.description)
        if name in self._tools:
            raise duplicate_tool(name)
        if len(self._tools) >= self._max_tools:
            raise _too_many("tools in this workbench", self._max_tools)
        if enabled:
            self._check_enabled(1)
        self._tools[name] = tool
        if enabled:
            self._enabled.add(name)

    def remove_tool(self, name: str) -> None:
        """Remove a tool.

        Raises:
            UnknownToolError: There is none of this name (a LookupError).
        """
        self._tool(name)
        del self._tools[name]
        self._enabled.discard(name)
        self._index.remove(name)

    def remove_all_tools(self) -> None:
        """Remove every tool, and what was known of it."""
        self._tools.clear()
        self._enabled.clear()
        self._index = ToolIndex()

    def enable_tool(self, name: str) -> None:
        """Show a tool to models again.

        Raises:
            UnknownToolError: There is none of this name (a LookupError).
            ToolDeclarationError: Too many are enabled (a ValueError).
        """
        self._tool(name)
        if name not in self._enabled:
            self._check_enabled(1)
            self._enabled.add(name)

    def disable_tool(self, name: str) -> None:
        """Show a tool to models no more.

        Raises:
            UnknownToolError: There is none of this name (a LookupError).
        """
        self._tool(name)
        self._enabled.discard(name)

    def _check_enabled(self, more: int) -> None:
        if len(self._enabled) + more > self._max_enabled:
            raise _too_many("enabled tools", self._max_enabled)

    def _tool(self, name: str) -> Tool:
        try:
            return self._tools[name]
        except KeyError:
            raise UnknownToolError(name, list(self._tools)) from None

    # Looking

    @property
    def tools(self) -> list[Tool]:
        """All tools, in the order in which they were added."""
        return list(self._tools.values())

    @property
    def enabled_tools(self) -> list[Tool]:
        """The enabled tools, in the order in which they were added."""
        return [tool for name, tool in self._tools.items() if name in self._enabled]

    def is_enabled(self, name: str) -> bool:
        """True if models are shown the tool.

        Raises:
            UnknownToolError: There is none of this name (a LookupError).
        """
        self._tool(name)
        return name in self._enabled

    def get_tool_names_for_query(self, query: str, limit: int = 10) -> list[str]:
        """Names of the tools whose words fit a text best, disabled ones among them, the best first; see `search`.

        Args:
            query: Words to look for in names, descriptions and arguments, in all their forms; rare words count more. A
                word of the same meaning is not found: that takes an embedder.
            limit: The most that are returned.

        Returns:
            The names; empty when no word of the query is found.
        """
        return self._ranked(query)[:limit]

    async def search(self, query: str, limit: int = 10) -> list[str]:
        """Names of the tools that fit a question best, disabled ones among them, the best first.

        With an embedder by meaning and by words together, so that always some are found; without one by words.

        Args:
            query: A question or a task, in any words.
            limit: The most that are returned.

        Raises:
            MemoryFailedError: The model failed.
        """
        return (await self._found(query, self.tools))[:limit]

    def get_tools_for_context(self, messages: Sequence[Any], limit: int = 10) -> list[Tool]:
        """The enabled tools that fit a conversation best.

        Args:
            messages: LLM messages; the text of the last one that has any counts.
            limit: The most that are returned.

        Returns:
            The best first; when nothing fits, or no more than `limit` are enabled, in the order of adding.
        """
        enabled = self.enabled_tools
        if len(enabled) <= limit:
            return enabled
        names = self._ranked(_last_text(messages), self._enabled)
        return [self._tools[name] for name in names][:limit] or enabled[:limit]

    async def search_for_context(self, messages: Sequence[Any], limit: int = 10) -> list[Tool]:
        """As `get_tools_for_context`, with the ranking of `search`.

        Raises:
            MemoryFailedError: The model failed.
        """
        enabled = self.enabled_tools
        if len(enabled) <= limit:
            return enabled
        names = await self._found(_last_text(messages), enabled)
        return [self._tools[name] for name in names if name in self._tools][:limit] or enabled[:limit]

    async def _found(self, query: str, tools: Sequence[Tool]) -> list[str]:
        by_words = self._ranked(query, {tool.name for tool in tools})
        if self._vectors is None or not query.strip():
            return by_words
        return joined(await self._vectors.rank(query, [tool.schema for tool in tools]), by_words)

    def _ranked(self, query: str, among: Container[str] | None = None) -> list[str]:
        for name, tool in self._tools.items():
            if name not in self._index:
                self._index.add(tool.schema)
        return self._index.rank(query, among)

    def get_tool_documentation(self, name: str) -> str:
        """The purpose and the arguments of a tool, as Markdown for a person or a model that plans.

        Raises:
            UnknownToolError: There is none of this name (a LookupError).
        """
        tool = self._tool(name)
        return document(tool.schema, inspect.getdoc(tool) if tool.__doc__ != type(tool).__doc__ else None)

    # As a workbench

    async def list_tools(self) -> list[ToolSchema]:
        """The schemas of the enabled tools."""
        return [tool.schema for tool in self.enabled_tools]

    def _find(self, name: str) -> Tool:
        if name in self._enabled:
            return self._tools[name]
        raise UnknownToolError(name, [tool.name for tool in self.enabled_tools], disabled=name in self._tools)

    async def reset(self) -> None:
        """Nothing to reset: tools stay as they were added."""

    async def save_state(self) -> Mapping[str, Any]:
        """Which tools there are and are enabled, and the state of each; the tools themselves are code."""
        states = {
            name: {"enabled": name in self._enabled, "state": dict(await tool.save_state_json())}
            for name, tool in self._tools.items()
        }
        return {"type": STATE, "version": STATE_VERSION, "tools": states}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned. Add the tools that it names first; others stay as they are.

        Raises:
            ToolDeclarationError: It is no such state, or a tool can't use its part; or more tools would be enabled than
                may be, and nothing has changed (a ValueError).
            UnknownToolError: It names a tool that is not here; nothing has changed (a LookupError).
        """
        parts = states_of(state, STATE)
        enabled = set(self._enabled)
        for name, part in parts.items():
            self._tool(name)
            if not isinstance(part.get("enabled"), bool) or not isinstance(part.get("state"), Mapping):
                raise unloadable(f"the part of {name!r} needs 'enabled' and 'state'")
            (enabled.add if part["enabled"] else enabled.discard)(name)
        if len(enabled) > self._max_enabled:
            raise _too_many("enabled tools", self._max_enabled)
        self._enabled = enabled
        for name, part in parts.items():
            await self._tools[name].load_state_json(part["state"])


def _too_many(what: str, limit: int) -> ToolDeclarationError:
    reason = f"there can be at most {limit} {what}, so remove or disable some first"
    return ToolDeclarationError("the workbench", reason, "is full")


def _last_text(messages: Sequence[Any]) -> str:
    """The text of the last message that has any."""
    for message in reversed(messages):
        content = getattr(message, "content", message)
        parts = content if isinstance(content, list) else [content]
        text = " ".join(
            part if isinstance(part, str) else str(getattr(part, "content", ""))
            for part in parts
            if isinstance(part, str) or isinstance(getattr(part, "content", None), str)
        )
        if text.strip():
            return text
    return ""
