"""Workbenches with a fixed list of tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from pydantic import BaseModel, Field

from callboard.foundation.component import Component, ComponentLoader, ComponentModel, dumped
from callboard.protocol import AgentRuntime

from .approval import NeedsApproval
from .base import Tool
from .calling import CallingStreamWorkbench, CallingWorkbench, limit_of, needs_approval_of
from .errors import DuplicateToolError, NotAToolError, ToolStateError, UnknownToolError
from .overrides import Overrides, ToolOverride
from .remote import RemoteTool
from .schema import ToolSchema
from .sizes import DEFAULT_LIMITS, ResultLimits

STATE_VERSION = "1.0.0"


class StaticWorkbenchConfig(BaseModel):
    """A StaticWorkbench as plain data; its fields are the arguments of StaticWorkbench."""

    tools: list[ComponentModel] = Field(default_factory=list)
    tool_overrides: dict[str, ToolOverride] = Field(default_factory=dict)
    timeout: float | None = None
    limits: ResultLimits = DEFAULT_LIMITS
    on: str | None = None


class StaticWorkbench(CallingWorkbench, Component[StaticWorkbenchConfig]):
    """A fixed list of tools.

    Args:
        tools: The tools.
        tool_overrides: Other names and descriptions, by the tools' own names.
        timeout: Seconds until a call is given up, for tools without a limit of their own; None: no limit.
        limits: How large results may be.
        on: Agent type that runs the tools, in processes of its own; None: they run here. See ToolAgent.
        runtime: The runtime by which that agent type is reached; see RemoteTool.

    Raises:
        NotAToolError: Something else is among the tools (a TypeError).
        DuplicateToolError: Two tools have one name (a ValueError). AutoGen calls the first of them.
        UnknownToolError, ToolConfigError: An override fits no tool, or makes two have one name.
    """

    component_config_schema = StaticWorkbenchConfig
    component_provider_override = "callboard.tools.StaticWorkbench"

    def __init__(
        self,
        tools: Sequence[Tool],
        tool_overrides: Mapping[str, ToolOverride] | None = None,
        *,
        timeout: float | None = None,
        limits: ResultLimits = DEFAULT_LIMITS,
        on: str | None = None,
        runtime: AgentRuntime | None = None,
    ) -> None:
        super().__init__(timeout, limits)
        self._tools = self._given_tools = tools_by_name(tools)
        self._on = on
        self._overrides = Overrides(tool_overrides)
        self._overrides.check(self._tools)
        if on is not None:
            self._tools = {
                name: RemoteTool(tool.schema, on, runtime=runtime, timeout=limit_of(tool, timeout))
                for name, tool in self._tools.items()
            }

    @property
    def names(self) -> list[str]:
        """The names of the tools, with overrides."""
        return [self._overrides.shown(tool.schema)["name"] for tool in self._tools.values()]

    async def list_tools(self) -> list[ToolSchema]:
        """The schemas of the tools, with overrides."""
        return [self._overrides.shown(tool.schema) for tool in self._tools.values()]

    def _find(self, name: str) -> Tool:
        tool = self._tools.get(self._overrides.own_name(name))
        if tool is None:
            raise UnknownToolError(name, [self._overrides.shown_name(own) for own in self._tools])
        return tool

    def approval_of(self, name: str) -> NeedsApproval:
        """What the tool itself says, also of one that runs elsewhere; see `Workbench.approval_of`."""
        tool = self._given_tools.get(self._overrides.own_name(name))
        return False if tool is None else needs_approval_of(tool)

    async def save_state(self) -> Mapping[str, Any]:
        """The states of the tools."""
        states = {name: dict(await tool.save_state_json()) for name, tool in self._tools.items()}
        return {"type": "StaticWorkbenchState", "version": STATE_VERSION, "tools": states}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over the states of the tools that are here; those of others are ignored, as in AutoGen.

        Raises:
            ToolStateError: It is no such state, or a tool can't use its part (a ValueError).
        """
        for name, part in states_of(state, "StaticWorkbenchState").items():
            if name in self._tools:
                await self._tools[name].load_state_json(part)

    def _to_config(self) -> StaticWorkbenchConfig:
        return StaticWorkbenchConfig(
            tools=[dumped(tool, self) for tool in self._given_tools.values()],
            tool_overrides=self._overrides.given,
            timeout=self._timeout,
            limits=self._limits,
            on=self._on,
        )

    @classmethod
    def _from_config(cls, config: StaticWorkbenchConfig) -> Self:
        return cls(
            [ComponentLoader.load_component(tool, Tool) for tool in config.tools],  # type: ignore[type-abstract]
            config.tool_overrides,
            timeout=config.timeout,
            limits=config.limits,
            on=config.on,
        )


class StaticStreamWorkbench(StaticWorkbench, CallingStreamWorkbench):
    """A fixed list of tools, some of which yield something on the way. Otherwise as StaticWorkbench."""

    component_provider_override = "callboard.tools.StaticStreamWorkbench"


def tools_by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    """The tools by their names.

    Raises:
        NotAToolError: Something else is among them (a TypeError).
        DuplicateToolError: Two have one name (a ValueError).
    """
    found: dict[str, Tool] = {}
    for tool in tools:
        if not isinstance(tool, Tool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise NotAToolError(type(tool).__name__)
        if tool.name in found:
            raise DuplicateToolError(tool.name)
        found[tool.name] = tool
    return found


def states_of(state: Mapping[str, Any], kind: str) -> Mapping[str, Mapping[str, Any]]:
    """The states of tools in the saved state of a workbench.

    Raises:
        ToolStateError: It is none of this kind of workbench (a ValueError).
    """
    given, states = state.get("type"), state.get("tools", {})
    if given != kind:
        raise ToolStateError(f"it is of the type {given!r}, not {kind!r}")
    if not isinstance(states, Mapping) or not all(isinstance(part, Mapping) for part in states.values()):
        raise ToolStateError("'tools' has to map the name of each tool to its state")
    return states
