"""The tools of an MCP server as a workbench."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic import BaseModel, ConfigDict

from callboard.cancellation import CancellationToken
from callboard.foundation.component import Component
from callboard.memory.llm_messages import FunctionCall, Image

from .asked import name_of_call, read_call
from .base import validated
from .errors import McpConnectionError, ToolError, ToolTimeoutError, UnknownToolError
from .limits import run_limited
from .mcp_config import McpWorkbenchConfig, params_of, written
from .mcp_params import McpServerParams, StdioServerParams, StreamableHttpServerParams
from .mcp_session import McpSession
from .overrides import Overrides, ToolOverride
from .results import ImageResultContent, ResultContent, TextResultContent, ToolResult, error_result, texts
from .schema import ToolSchema, to_parameters
from .sizes import DEFAULT_LIMITS, ResultLimits
from .workbench import Workbench

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult, ContentBlock, Tool as McpTool

__all__ = ["McpWorkbench", "StdioServerParams", "StreamableHttpServerParams"]

PAGES: Final = 100  # pages of a list of tools; a server that always has one more is stopped there
LABEL: Final = "tools/list"


class _AnyArguments(BaseModel):
    """The server checks what they are; here only that they are an object."""

    model_config = ConfigDict(extra="allow")


class McpWorkbench(Workbench, Component[McpWorkbenchConfig]):
    """The tools of one MCP server, over stdio or streamable HTTP.

    It connects when it is first used. A connection that breaks is made again by the next call; the call that it broke
    in is repeated only if the server says of the tool that this does no harm (read-only or idempotent), else its
    result says that it is unknown whether it was done.

    Needs mcp: ``pip install 'callboard[mcp]'``. Only servers that you trust: one that is started as a process can do
    what you can, and what a server says of its tools goes to the model as it is.

    A dump (`dump_component`) has no secrets: variables of the environment are named where they are secret by their name,
    and found in the environment where it is loaded; such headers are left out. A program is started only when it is among
    the `commands` of `load_component`.

    Args:
        server_params: The server.
        tool_overrides: Other names and descriptions, by the tools' own names.
        connect_timeout: Seconds until a server must have answered for the first time.
        limits: How large results may be.

    Raises:
        ToolConfigError: Two tools would have one name (a ValueError).
    """

    component_config_schema = McpWorkbenchConfig
    component_provider_override = "callboard.tools.McpWorkbench"

    def __init__(
        self,
        server_params: McpServerParams,
        tool_overrides: Mapping[str, ToolOverride] | None = None,
        *,
        connect_timeout: float = 30.0,
        limits: ResultLimits = DEFAULT_LIMITS,
    ) -> None:
        self._params = server_params
        self._overrides = Overrides(tool_overrides)
        self._connect_timeout = connect_timeout
        self._limits = limits
        self._connecting = asyncio.Lock()
        self._session: McpSession | None = None
        self._client: Client | None = None
        self._tools: dict[str, McpTool] = {}

    @property
    def server_params(self) -> McpServerParams:
        """The server."""
        return self._params

    async def start(self) -> None:
        """Connect.

        Raises:
            McpConnectionError: There is no connection (a ConnectionError).
            MissingPackageError: mcp is not installed (an ImportError).
        """
        await self._connected()

    async def stop(self) -> None:
        """End the connection, and the server's process if there is one."""
        async with self._connecting:
            session, self._session, self._client = self._session, None, None
        self._tools = {}
        if session is not None:
            await session.close()

    async def reset(self) -> None:
        """Connect anew; a server that is a process is started anew."""
        await self.stop()
        await self.start()

    async def list_tools(self) -> list[ToolSchema]:
        """The schemas of the server's tools, with overrides. Connects again if the connection was lost.

        Raises:
            McpConnectionError: The server can't be reached, or does not answer in time (a ConnectionError).
            ToolConfigError: A tool would be shown by the name of another (a ValueError).
        """
        await self._refresh()
        return [self._overrides.shown(_schema(tool)) for tool in self._tools.values()]

    async def _refresh(self) -> None:
        for attempt in (1, 2):
            client = await self._connected()
            try:
                listing = run_limited(
                    LABEL,
                    partial(_all_tools, client),
                    None,
                    self._params.read_timeout_seconds,
                )
                self._tools = {tool.name: tool for tool in await listing}
                return
            except Exception as error:
                await self._drop(client)
                if attempt == 2 or isinstance(error, ToolTimeoutError):
                    raise McpConnectionError(self._params.label, str(error)) from error

    async def call_tool(
        self,
        name: str | FunctionCall,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Call a tool, by its name or as a whole call of a model; see `CallingWorkbench.call_tool`."""
        try:
            asked = read_call(name, arguments, call_id)
            name, own = asked.name, self._overrides.own_name(asked.name)
            if own not in self._tools:
                await self._refresh()
            if own not in self._tools:
                shown = [self._overrides.shown_name(tool) for tool in self._tools]
                return error_result(name, UnknownToolError(name, shown))
            given = validated(_AnyArguments, {} if asked.arguments is None else asked.arguments, name)
            return await self._call(name, own, given.model_dump(), cancellation_token)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - the model is told of any error
            return error_result(name_of_call(name), error)

    async def _call(
        self, name: str, own: str, arguments: dict[str, Any], token: CancellationToken | None
    ) -> ToolResult:
        attempts = (1, 2) if _may_be_repeated(self._tools[own]) else (2,)
        for attempt in attempts:
            client = await self._connected()
            try:
                result = await run_limited(
                    name,
                    partial(_ask, client, own, arguments),
                    token,
                    self._params.read_timeout_seconds,
                )
                made = ToolResult(name=name, result=_parts(result), is_error=result.is_error)
                return self._limits.within(made)
            except ToolError:
                raise
            except Exception as error:
                if not _is_lost(error):
                    raise
                await self._drop(client)
                if attempt == attempts[-1]:
                    raise self._lost(name) from error
        raise self._lost(name)

    def _lost(self, tool: str) -> McpConnectionError:
        return McpConnectionError(
            self._params.label,
            f"its connection was lost while {tool} was called: it may or may not have done its work. "
            "The next call connects again",
        )

    async def _connected(self) -> Client:
        async with self._connecting:
            if self._client is None:
                session = McpSession(self._params)
                self._client = await session.open(self._connect_timeout)
                self._session = session
            return self._client

    async def _drop(self, client: Client) -> None:
        """Forgets a connection that is of no use any more, unless another call did so already."""
        async with self._connecting:
            if self._client is not client:
                return
            session, self._session, self._client = self._session, None, None
        if session is not None:
            await session.close()

    async def save_state(self) -> Mapping[str, Any]:
        """Nothing: what a server remembers is its own."""
        return {"type": "McpWorkbenchState", "version": "1.0.0"}

    def _to_config(self) -> McpWorkbenchConfig:
        return written(self._params, self._overrides.given, self._connect_timeout, self._limits)

    @classmethod
    def _from_config(cls, config: McpWorkbenchConfig) -> Self:
        params, overrides = params_of(config), config.tool_overrides
        return cls(params, overrides, connect_timeout=config.connect_timeout, limits=config.limits)


async def _ask(
    client: Client, own: str, arguments: dict[str, Any], _token: CancellationToken
) -> CallToolResult:
    return await client.call_tool(own, arguments)


async def _all_tools(client: Client, _token: CancellationToken) -> list[McpTool]:
    tools: list[McpTool] = []
    cursor: str | None = None
    for _ in range(PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return tools


def _schema(tool: McpTool) -> ToolSchema:
    parameters = to_parameters(tool.input_schema, tool.name)
    return ToolSchema(name=tool.name, description=tool.description or "", parameters=parameters)


def _may_be_repeated(tool: McpTool) -> bool:
    hints = tool.annotations
    return hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)


def _is_lost(error: Exception) -> bool:
    """True if the connection, or the server's memory of it, is gone."""
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST

    return isinstance(error, MCPError) and error.code in (CONNECTION_CLOSED, INVALID_REQUEST)


def _parts(result: CallToolResult) -> list[ResultContent]:
    parts: list[ResultContent] = [_part(block) for block in result.content]
    if not parts and result.structured_content is not None:
        parts = list(texts(json.dumps(result.structured_content, ensure_ascii=False)))
    return parts


def _part(block: ContentBlock) -> TextResultContent | ImageResultContent:
    if block.type == "text":
        text = block.text
    elif block.type == "image":
        return ImageResultContent(content=Image(data=block.data, mime_type=block.mime_type))
    elif block.type == "resource_link":
        text = f"[resource {block.name}: {block.uri}]"
    elif block.type == "resource":
        text = getattr(block.resource, "text", "") or f"[resource {block.resource.uri}, no text]"
    else:
        text = f"[audio, {block.mime_type}]"
    return texts(text)[0]
