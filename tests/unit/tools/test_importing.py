"""Functions by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from callboard.tools.errors import ToolDeclarationError
from callboard.tools.named_functions import import_function, path_of


def test_a_function_is_found_by_its_name() -> None:
    assert path_of(import_function) == "callboard.tools.named_functions:import_function"
    assert import_function("callboard.tools.named_functions:path_of") is path_of
    assert import_function("callboard.tools.base:BaseTool.run") is not None


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("", "write module:function"),
        ("os", "write module:function"),
        ("os:", "write module:function"),
        ("os:system; rm", "write module:function"),
        ("import os:x", "write module:function"),
        ("no.such.module:x", "can't be imported"),
        ("os:nothing", "there is no 'nothing'"),
        ("os:sep", "it is a str, no function"),
        ("callboard.tools.base:BaseTool", "no function"),
    ],
)
def test_what_names_no_function(target: str, problem: str) -> None:
    with pytest.raises(ToolDeclarationError, match=problem):
        import_function(target)


def test_functions_may_be_limited_to_some_modules() -> None:
    assert import_function("callboard.tools.named_functions:path_of", ["callboard"]) is path_of
    for modules in (["callboar"], ["callboard.toolsx"], []):
        with pytest.raises(ToolDeclarationError, match="may only come from"):
            import_function("callboard.tools.named_functions:path_of", modules)


def test_a_module_that_fails_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_tools.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ToolDeclarationError, match="ZeroDivisionError"):
        import_function("broken_tools:x")


def test_a_function_that_was_replaced_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def other() -> None: ...

    function = import_function("callboard.tools.dynamic:document")
    monkeypatch.setattr("callboard.tools.dynamic.document", other)
    with pytest.raises(ToolDeclarationError):
        path_of(function)


SCRIPT = """
from callboard.tools import FunctionTool
def f(a: int) -> int:
    return a
if __name__ == "__main__":
    try:
        print(FunctionTool(f).to_config().function)
    except ValueError as error:
        print(error)
"""


def test_functions_of_a_script(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    root = Path(__file__).parents[3]

    def said(*arguments: str) -> str:
        environ = {"PYTHONPATH": f"{tmp_path}:{root}"}
        done = subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, check=True, env=environ
        )
        return done.stdout.strip()

    assert "put it into a module of its own" in said(str(tmp_path / "script.py"))
    assert said("-m", "script") == "script:f"
