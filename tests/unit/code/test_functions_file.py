"""The module of functions, and their stubs."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from callboard.code import (
    Alias,
    FunctionsError,
    FunctionWithRequirements,
    FunctionWithRequirementsStr,
    ImportFromModule,
    with_requirements,
)
from callboard.code.functions import build_python_functions_file, packages_of, to_stub


@with_requirements(
    python_packages=["pandas>=2", "numpy"],
    global_imports=["os", Alias("numpy", "np"), ImportFromModule("math", ["floor", Alias("ceil", "up")])],
)
@functools.cache
def wrapped(number: int) -> int:
    """Doubles."""
    # a comment stays
    return 2 * number


def plain(text: str = "a") -> str:
    return text


SOURCE = 'def given(x: int, *rest: str) -> str:\n    """Gives."""\n    return str(x)\n'


def test_imports_come_first_each_once_and_the_decorator_is_left_out() -> None:
    given = FunctionWithRequirementsStr(SOURCE, ["numpy"], ["os", "re"])
    source = build_python_functions_file([wrapped, plain, given])
    assert source.startswith(
        "import os\nimport numpy as np\nfrom math import floor, ceil as up\nimport re\n\n\n@functools"
    )
    assert "with_requirements" not in source
    assert "# a comment stays" in source
    assert source.endswith('"""Gives."""\n    return str(x)\n')
    assert packages_of([wrapped, plain, given]) == ["pandas>=2", "numpy"]


def test_stubs() -> None:
    assert to_stub(plain).replace("'", "").startswith("def plain(text: str = a) -> str:\n    ...")
    assert to_stub(FunctionWithRequirements.from_str(SOURCE)) == (
        'def given(x: int, *rest: str) -> str:\n    """Gives."""\n    ...'
    )


def test_a_marked_function_can_be_called() -> None:
    assert wrapped(4) == 8
    assert FunctionWithRequirements.from_callable(plain)("b") == "b"


def test_source_is_parsed_and_not_run(tmp_path: Path) -> None:
    given = FunctionWithRequirementsStr(
        f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n{SOURCE}"
    )
    assert not (tmp_path / "ran").exists()
    assert given.compiled_func(3) == "3"
    assert (tmp_path / "ran").exists()
    with pytest.raises(NotImplementedError):
        given()


@pytest.mark.parametrize("source", ["", "x = 1", "def a(): ...\ndef b(): ...", "def a(:", "\0"])
def test_source_that_is_not_one_function(source: str) -> None:
    with pytest.raises(FunctionsError):
        FunctionWithRequirementsStr(source)


@pytest.mark.parametrize("function", [len, lambda: None, functools.partial(plain)])
def test_a_function_whose_source_can_not_be_used(function: object) -> None:
    with pytest.raises(ValueError, match=r"can't be found|not written with def"):
        build_python_functions_file([function])  # type: ignore[list-item]
