"""Code as a tool."""

from __future__ import annotations

from pathlib import Path

from callboard import CancellationToken
from callboard.code import PythonCodeExecutionTool
from callboard.tools import StaticWorkbench

from .executors import an_executor


async def test_a_model_runs_python(folder: Path) -> None:
    tool = PythonCodeExecutionTool(an_executor(folder))
    assert (tool.name, tool.description) == ("CodeExecutor", "Execute Python code blocks.")
    result = await tool.run_json({"code": "print(6 * 7)"}, CancellationToken())
    assert (result.success, result.output, result.model_dump()) == (True, "42\n", "42\n")
    assert tool.return_value_as_string(result) == "42\n"


async def test_what_fails_is_for_the_model_to_read(folder: Path) -> None:
    async with StaticWorkbench([PythonCodeExecutionTool(an_executor(folder))]) as workbench:
        result = await workbench.call_tool("CodeExecutor", {"code": "1/0"})
    assert not result.is_error
    assert "ZeroDivisionError" in result.to_text()
