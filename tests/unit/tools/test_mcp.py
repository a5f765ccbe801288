"""MCP workbenches without a server; with real ones in tests/integration/test_tools_mcp.py."""

from __future__ import annotations

import sys

import pytest
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import ValidationError

from callboard.foundation import MissingPackageError
from callboard.tools import McpWorkbench, StdioServerParams, StreamableHttpServerParams, ToolOverride
from callboard.tools.errors import ToolDeclarationError
from callboard.tools.mcp import _parts


def test_errors_call_a_server_by_a_name_without_secrets() -> None:
    assert StdioServerParams(command="/usr/bin/server", args=["--key", "secret"]).label == "server"
    params = StreamableHttpServerParams(url="https://user:secret@host.test:8443/mcp?key=secret")
    assert params.label == "https://host.test:8443/mcp"
    assert params.read_timeout_seconds == 30.0
    with pytest.raises(ValidationError):
        params.url = "x"  # type: ignore[misc]


def test_overrides_are_checked_at_once() -> None:
    both = {"a": ToolOverride(name="c"), "b": ToolOverride(name="c")}
    workbench = McpWorkbench(StdioServerParams(command="x"))
    assert workbench.server_params.label == "x"
    with pytest.raises(ToolDeclarationError):
        McpWorkbench(StdioServerParams(command="x"), both)


def test_every_kind_of_content_becomes_a_part() -> None:
    result = CallToolResult(
        content=[
            TextContent(text="plain"),
            ImageContent(data="iVBORw0KGgo=", mime_type="image/png"),
            AudioContent(data="", mime_type="audio/wav"),
            EmbeddedResource(resource=TextResourceContents(uri="a://1", text="inside")),
            EmbeddedResource(resource=BlobResourceContents(uri="a://2", blob="")),
            ResourceLink(uri="a://3", name="link"),
        ]
    )
    assert [getattr(part.content, "mime_type", part.content) for part in _parts(result)] == [
        "plain",
        "image/png",
        "[audio, audio/wav]",
        "inside",
        "[resource a://2, no text]",
        "[resource link: a://3]",
    ]
    (part,) = _parts(CallToolResult(content=[], structured_content={"a": "é"}))
    assert part.content == '{"a": "é"}'
    assert _parts(CallToolResult(content=[])) == []


async def test_without_mcp_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    workbench = McpWorkbench(StdioServerParams(command="x"))
    with pytest.raises(MissingPackageError, match=r"callboard\[mcp\]"):
        await workbench.start()
    assert "callboard[mcp]" in (await workbench.call_tool("a")).to_text()
