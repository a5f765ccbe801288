"""A small MCP server: `python -m tests.helpers.mcp_tools [PORT]`, over stdio without a port."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import Image, MCPServer
from mcp_types import ToolAnnotations

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
server = MCPServer("tests", log_level="ERROR")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
async def wait(seconds: float, file: str = "") -> str:
    """Waits; writes down that it was cancelled."""
    try:
        await asyncio.sleep(seconds)
    except BaseException:
        if file:
            Path(file).write_text("cancelled")
        raise
    return "waited"


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("on purpose")


@server.tool()
def picture() -> Image:
    """A picture."""
    return Image(data=PIXEL, format="png")


@server.tool()
def large() -> str:
    """More than a model can read."""
    return "x" * 2_000_000


@server.tool(name="exit")
def end() -> str:
    """Ends the server."""
    os._exit(7)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def exit_once(file: str) -> str:
    """Ends the server, unless the file is there."""
    path = Path(file)
    if path.exists():
        return "back again"
    path.touch()
    os._exit(7)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
