"""Tools that models call, and workbenches that hold them. Everything is loaded when it is first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base import BaseStreamTool, BaseTool, BaseToolWithState, StreamTool, Tool
    from .context import tool_context
    from .dynamic import DynamicWorkbench
    from .errors import ToolError
    from .function import FunctionTool, FunctionToolConfig, tool
    from .http import HttpLimits, HttpTool, HttpToolConfig
    from .langchain import LangChainToolAdapter
    from .mcp import McpWorkbench
    from .mcp_params import StdioServerParams, StreamableHttpServerParams
    from .overrides import ToolOverride
    from .remote import RemoteTool, ToolCallRequest
    from .results import ImageResultContent, ResultContent, TextResultContent, ToolResult
    from .schema import ParametersSchema, ToolSchema
    from .static import StaticStreamWorkbench, StaticWorkbench
    from .tool_agent import ToolAgent
    from .workbench import StreamWorkbench, Workbench

_HOME = {
    "BaseStreamTool": ".base",
    "BaseTool": ".base",
    "BaseToolWithState": ".base",
    "DynamicWorkbench": ".dynamic",
    "FunctionTool": ".function",
    "FunctionToolConfig": ".function",
    "HttpLimits": ".http",
    "HttpTool": ".http",
    "HttpToolConfig": ".http",
    "ImageResultContent": ".results",
    "LangChainToolAdapter": ".langchain",
    "McpWorkbench": ".mcp",
    "ParametersSchema": ".schema",
    "RemoteTool": ".remote",
    "ResultContent": ".results",
    "StaticStreamWorkbench": ".static",
    "StaticWorkbench": ".static",
    "StdioServerParams": ".mcp_params",
    "StreamTool": ".base",
    "StreamWorkbench": ".workbench",
    "StreamableHttpServerParams": ".mcp_params",
    "TextResultContent": ".results",
    "Tool": ".base",
    "ToolAgent": ".tool_agent",
    "ToolCallRequest": ".remote",
    "ToolError": ".errors",
    "ToolOverride": ".overrides",
    "ToolResult": ".results",
    "ToolSchema": ".schema",
    "Workbench": ".workbench",
    "tool": ".function",
    "tool_context": ".context",
}

__all__ = [
    "BaseStreamTool",
    "BaseTool",
    "BaseToolWithState",
    "DynamicWorkbench",
    "FunctionTool",
    "FunctionToolConfig",
    "HttpLimits",
    "HttpTool",
    "HttpToolConfig",
    "ImageResultContent",
    "LangChainToolAdapter",
    "McpWorkbench",
    "ParametersSchema",
    "RemoteTool",
    "ResultContent",
    "StaticStreamWorkbench",
    "StaticWorkbench",
    "StdioServerParams",
    "StreamTool",
    "StreamWorkbench",
    "StreamableHttpServerParams",
    "TextResultContent",
    "Tool",
    "ToolAgent",
    "ToolCallRequest",
    "ToolError",
    "ToolOverride",
    "ToolResult",
    "ToolSchema",
    "Workbench",
    "tool",
    "tool_context",
]

if not TYPE_CHECKING:
    # Hidden from type checkers, which would take any misspelt name for one of these.

    def __getattr__(name: str) -> object:
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home, __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
