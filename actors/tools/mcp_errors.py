"""Errors of MCP workbenches."""

from __future__ import annotations

from .errors import ToolError


class McpError(ToolError):
    """An MCP server can't be used as it should."""


class McpConnectionError(McpError, ConnectionError):
    """There is no connection to an MCP server.

    Attributes:
        server: Its command or address.
        reason: What happened.
    """

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(server, reason)
        self.server = server
        self.reason = reason

    def __str__(self) -> str:
        return f"the MCP server {self.server} can't be reached: {self.reason}"


class McpConnectionLostError(McpError, ConnectionError):
    """The connection to an MCP server ended in the middle of a call.

    Attributes:
        server: Its command or address.
        tool: The tool that was called.
    """

    def __init__(self, server: str, tool: str) -> None:
        super().__init__(server, tool)
        self.server = server
        self.tool = tool

    def __str__(self) -> str:
        return (
            f"the connection to the MCP server {self.server} was lost while {self.tool} was called: it may or may not "
            "have done its work. The next call connects again"
        )
