"""Code executors as plain data and back."""

from __future__ import annotations

from typing import Any

import pytest

from callboard import ComponentModel
from callboard.code import (
    CodeExecutor,
    CodeLimits,
    LocalCommandLineCodeExecutor,
    PythonCodeExecutionTool,
)
from callboard.tools import BaseTool

pytestmark = pytest.mark.filterwarnings("ignore:LocalCommandLineCodeExecutor runs code")


def again(dump: ComponentModel) -> ComponentModel:
    return ComponentModel.model_validate_json(dump.model_dump_json())


def test_an_executor_comes_back() -> None:
    executor = LocalCommandLineCodeExecutor(
        7, "here", functions_module="helpers", limits=CodeLimits(processes=3), require_confinement=["network"]
    )
    dump = executor.dump_component()
    assert dump.provider == "callboard.code.LocalCommandLineCodeExecutor"
    assert dump.component_type == "code_executor"
    loaded = CodeExecutor.load_component(again(dump))
    assert isinstance(loaded, LocalCommandLineCodeExecutor)
    assert loaded.dump_component() == dump


def test_a_tool_with_its_executor() -> None:
    tool = PythonCodeExecutionTool(LocalCommandLineCodeExecutor(7))
    dump = tool.dump_component()
    assert dump.component_type == "tool"
    assert BaseTool.load_component(again(dump)).dump_component() == dump


def test_those_of_autogen_are_read() -> None:
    executor = {
        "provider": "autogen_ext.code_executors.local.LocalCommandLineCodeExecutor",
        "component_type": "code_executor",
        "config": {
            "timeout": 60,
            "work_dir": "here",
            "functions_module": "functions",
            "cleanup_temp_files": True,
        },
    }
    loaded: Any = BaseTool.load_component(
        {
            "provider": "autogen_ext.tools.code_execution.PythonCodeExecutionTool",
            "config": {"executor": executor, "description": "Execute Python code blocks."},
        }
    )
    assert isinstance(loaded, PythonCodeExecutionTool)
    assert loaded.dump_component().config["executor"]["config"]["work_dir"].endswith("here")
