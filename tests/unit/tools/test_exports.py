"""The names in `callboard.tools`, and that they are cheap to import."""

from __future__ import annotations

import subprocess
import sys

import pytest

import callboard.tools


def test_the_names_of_autogen_core_are_there() -> None:
    names = """Tool StreamTool ToolSchema ParametersSchema BaseTool BaseToolWithState BaseStreamTool FunctionTool
        Workbench ToolResult TextResultContent ImageResultContent StaticWorkbench StaticStreamWorkbench ToolOverride
        ResultContent StreamWorkbench"""
    assert set(names.split()) <= set(callboard.tools.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"No callboard.tools attribute Tol"):
        callboard.tools.Tol  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import callboard.tools", "pydantic mcp httpx httpx2 redis"),
        (
            "from callboard.tools import FunctionTool, HttpTool, McpWorkbench, StaticWorkbench",
            "mcp httpx httpx2 redis",
        ),
    ],
)
def test_importing_loads_nothing_heavy(code: str, heavy: str) -> None:
    script = f"import sys; {code}; print([m for m in {heavy.split()} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
