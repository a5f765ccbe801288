"""What `actors.tools` offers, and that it is cheap to import."""

from __future__ import annotations

import subprocess
import sys

import pytest

import actors.tools


def test_all_names_everything_and_everything_is_there() -> None:
    assert sorted(actors.tools.__all__) == sorted(actors.tools._HOME)
    for name in actors.tools.__all__:
        assert getattr(actors.tools, name) is not None
    assert set(actors.tools.__all__) <= set(dir(actors.tools))


def test_the_names_of_autogen_core_are_there() -> None:
    names = """Tool StreamTool ToolSchema ParametersSchema BaseTool BaseToolWithState BaseStreamTool FunctionTool
        Workbench ToolResult TextResultContent ImageResultContent StaticWorkbench StaticStreamWorkbench ToolOverride
        ResultContent StreamWorkbench"""
    assert set(names.split()) <= set(actors.tools.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'actors.tools' has no attribute 'Tol'"):
        actors.tools.Tol  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import actors.tools", "pydantic mcp httpx httpx2 redis"),
        (
            "from actors.tools import FunctionTool, HttpTool, McpWorkbench, StaticWorkbench",
            "mcp httpx httpx2 redis",
        ),
    ],
)
def test_importing_loads_nothing_heavy(code: str, heavy: str) -> None:
    script = f"import sys; {code}; print([m for m in {heavy.split()} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
