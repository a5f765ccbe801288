"""The names in `callboard.code`, and that they are cheap to import."""

from __future__ import annotations

import subprocess
import sys

import callboard.code


def test_all_names_are_there_with_those_of_autogen() -> None:
    for name in callboard.code.__all__:
        assert getattr(callboard.code, name) is not None
    names = """CodeBlock CodeExecutor CodeResult Alias ImportFromModule Import FunctionWithRequirements
        FunctionWithRequirementsStr with_requirements CommandLineCodeResult LocalCommandLineCodeExecutor
        CodeExecutionInput CodeExecutionResult PythonCodeExecutionTool"""
    assert set(names.split()) <= set(callboard.code.__all__)


def test_importing_loads_nothing_heavy() -> None:
    script = "import sys; import callboard.code; print([m for m in ('asyncio', 'pydantic', 'ctypes') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
