"""The module of functions that code may import, and how it is described to a model."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Sequence
from textwrap import dedent, indent
from typing import Any, TypeAlias, TypeGuard

from .errors import FunctionsError
from .requirements import (
    Alias,
    FunctionWithRequirements,
    FunctionWithRequirementsStr,
    Import,
    with_requirements,
)

__all__ = ["Function", "build_python_functions_file", "packages_of", "to_stub"]

Function: TypeAlias = FunctionWithRequirements[Any, Any] | FunctionWithRequirementsStr | Callable[..., Any]
_WithRequirements: TypeAlias = FunctionWithRequirements[Any, Any] | FunctionWithRequirementsStr


def build_python_functions_file(functions: Sequence[Function]) -> str:
    """The source of the module: the imports that the functions need, and the functions.

    Raises:
        FunctionsError: The source of a function can't be found: it was typed in, or is not written in Python.
    """
    imports = dict.fromkeys(_import_line(item) for function in functions for item in _imports_of(function))
    parts = ["\n".join(imports), *(_source_of(function) for function in functions)]
    return "\n\n\n".join(part for part in parts if part) + "\n"


def packages_of(functions: Sequence[Function]) -> list[str]:
    """What pip has to install for the functions, each once."""
    with_packages = [function for function in functions if _has_requirements(function)]
    return list(dict.fromkeys(name for function in with_packages for name in function.python_packages))


def to_stub(function: Function) -> str:
    """A function as its first line and its docstring, for a model to read."""
    if isinstance(function, FunctionWithRequirementsStr):
        return _stub_of(function.definition)
    signature = f"def {getattr(function, '__name__', 'function')}{inspect.signature(function)}:"
    return _stub(signature, function.__doc__)


def _stub_of(definition: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    returns = f" -> {ast.unparse(definition.returns)}" if definition.returns else ""
    signature = f"def {definition.name}({ast.unparse(definition.args)}){returns}:"
    return _stub(signature, ast.get_docstring(definition))


def _stub(signature: str, docstring: str | None) -> str:
    lines = [signature]
    if docstring:
        lines.append(indent(f'"""{inspect.cleandoc(docstring)}"""', "    "))
    return "\n".join([*lines, "    ..."])


def _has_requirements(function: Function) -> TypeGuard[_WithRequirements]:
    return isinstance(function, FunctionWithRequirements | FunctionWithRequirementsStr)


def _imports_of(function: Function) -> Sequence[Import]:
    return function.global_imports if _has_requirements(function) else ()


def _import_line(item: Import) -> str:
    if isinstance(item, str):
        return f"import {item}"
    if isinstance(item, Alias):
        return f"import {item.name} as {item.alias}"
    names = (name if isinstance(name, str) else f"{name.name} as {name.alias}" for name in item.imports)
    return f"from {item.module} import {', '.join(names)}"


def _source_of(function: Function) -> str:
    """The source, without the decorator that says what the function needs; other decorators stay.

    AutoGen cuts off the first line, whichever decorator it holds the beginning of.
    """
    if isinstance(function, FunctionWithRequirementsStr):
        return function.func.strip("\n")
    plain = function.func if isinstance(function, FunctionWithRequirements) else function
    try:
        source = dedent(inspect.getsource(plain))
        definition = ast.parse(source).body[0]
    except (OSError, TypeError, SyntaxError) as error:
        raise FunctionsError(f"The source of {plain!r} can't be found: {error}") from error
    name = getattr(plain, "__name__", "")
    # The source of a lambda is the statement around it.
    if not isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef) or definition.name != name:
        raise FunctionsError(f"{plain!r} is not written with def.")
    return "".join(_kept_lines(source, definition)).strip("\n")


def _kept_lines(source: str, definition: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    left_out = set[int]()
    for decorator in definition.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if ast.unparse(called).rpartition(".")[2] == with_requirements.__name__:
            left_out.update(range(decorator.lineno, (decorator.end_lineno or decorator.lineno) + 1))
    for number, line in enumerate(source.splitlines(keepends=True), start=1):
        if number not in left_out:
            yield line
