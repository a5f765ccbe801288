"""Functions that code may import: what they need, their module, and the installation of their packages."""

from __future__ import annotations

import ast
import asyncio
import functools
import inspect
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent
from typing import Any, Generic, NoReturn, ParamSpec, TypeAlias, TypeGuard, TypeVar

from callboard.core.cancellation import CancellationToken

from .base import FunctionsError

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Alias:
    """`name as alias`."""

    name: str
    alias: str


@dataclass(frozen=True, init=False)
class ImportFromModule:
    """`from module import ...`.

    Attributes:
        module: The module.
        imports: What is imported from it.
    """

    module: str
    imports: tuple[str | Alias, ...]

    def __init__(self, module: str, imports: Sequence[str | Alias]) -> None:
        object.__setattr__(self, "module", module)
        object.__setattr__(self, "imports", tuple(imports))


Import: TypeAlias = str | ImportFromModule | Alias


@dataclass(init=False)
class FunctionWithRequirementsStr:
    """The source of one function that code may import.

    AutoGen runs the source in its own process to learn the function's name; here it is parsed, and run only when
    `compiled_func` is asked for.

    Attributes:
        func: The source.
        python_packages: What pip has to install for it.
        global_imports: What its module has to import.

    Raises:
        FunctionsError: The source does not parse, or holds no function or several (a ValueError).
    """

    func: str
    python_packages: Sequence[str]
    global_imports: Sequence[Import]

    def __init__(
        self, func: str, python_packages: Sequence[str] = (), global_imports: Sequence[Import] = ()
    ) -> None:
        self.func = func
        self.python_packages = python_packages
        self.global_imports = global_imports
        self._func_name = self.definition.name

    @property
    def definition(self) -> ast.FunctionDef | ast.AsyncFunctionDef:
        """The function as it is parsed."""
        try:
            body = ast.parse(self.func).body
        except (SyntaxError, ValueError) as error:
            raise FunctionsError(f"Could not compile function: {error}") from None
        found = [node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        if len(found) != 1:
            raise FunctionsError("The string must contain exactly one function")
        return found[0]

    @functools.cached_property
    def compiled_func(self) -> Callable[..., Any]:
        """The function itself. This runs the source in our process."""
        module: dict[str, Any] = {"__name__": "func_module"}
        try:
            exec(compile(self.func, "<function>", "exec"), module)  # noqa: S102 - what the name promises
        except Exception as error:
            raise FunctionsError(f"Could not compile function: {error}") from error
        function: Callable[..., Any] = module[self._func_name]
        return function

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(
            "A function that is given as source can't be called here: it is for the code that runs."
        )


@dataclass
class FunctionWithRequirements(Generic[T, P]):
    """A function that code may import; it can be called as before. Made by `with_requirements`.

    Attributes:
        func: The function. Code gets its source, so it may use nothing of its module but its imports.
        python_packages: What pip has to install for it.
        global_imports: What its module has to import.
    """

    func: Callable[P, T]
    python_packages: Sequence[str] = ()
    global_imports: Sequence[Import] = ()

    @classmethod
    def from_callable(
        cls, func: Callable[P, T], python_packages: Sequence[str] = (), global_imports: Sequence[Import] = ()
    ) -> FunctionWithRequirements[T, P]:
        """A function and what it needs."""
        return cls(func, python_packages, global_imports)

    @staticmethod
    def from_str(
        func: str, python_packages: Sequence[str] = (), global_imports: Sequence[Import] = ()
    ) -> FunctionWithRequirementsStr:
        """The source of a function and what it needs."""
        return FunctionWithRequirementsStr(func, python_packages, global_imports)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.func(*args, **kwargs)


def with_requirements(
    python_packages: Sequence[str] = (), global_imports: Sequence[Import] = ()
) -> Callable[[Callable[P, T]], FunctionWithRequirements[T, P]]:
    """Mark a function as one that code may import, with what it needs.

    Args:
        python_packages: What pip has to install for it, as pip takes it: "pandas>=2".
        global_imports: What its module has to import: "pandas", `Alias("pandas", "pd")`,
            `ImportFromModule("os", ["path"])`.
    """

    def wrap(func: Callable[P, T]) -> FunctionWithRequirements[T, P]:
        wrapped = FunctionWithRequirements(func, python_packages, global_imports)
        functools.update_wrapper(wrapped, func)
        return wrapped

    return wrap


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
    """Packages that pip has to install for the functions, each once."""
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


#: Asks an interpreter which of some packages it has; a requirement that is more than a name counts as missing.
MISSING = """
import importlib.metadata, sys
for name in sys.argv[1:]:
    try:
        importlib.metadata.version(name)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        print(name)
"""


async def install(
    python: str, packages: Sequence[str], target: Path, timeout: float, tokens: Iterable[CancellationToken]
) -> None:
    """Install the packages that an interpreter does not have yet, unconfined, as the user asked for them.

    AutoGen installs them into the interpreter that the program itself runs in; here they go to a folder of their own.

    Args:
        python: The interpreter.
        packages: Requirements as pip takes them.
        target: The folder.
        timeout: Seconds.
        tokens: Each stops it.

    Raises:
        FunctionsError: pip failed, was cancelled or took too long (a ValueError).
    """
    missing = (await _run([python, "-c", MISSING, *packages], timeout, tokens)).split("\n")
    wanted = [name for name in packages if name in missing]
    if wanted:
        await _run(
            [python, "-m", "pip", "install", "-q", "--target", str(target), "--", *wanted], timeout, tokens
        )


async def _run(command: list[str], timeout: float, tokens: Iterable[CancellationToken]) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, start_new_session=True
    )
    answer = asyncio.ensure_future(process.communicate())
    for token in tokens:
        token.link_future(answer)
    try:
        async with asyncio.timeout(timeout):
            output = (await answer)[0].decode("utf-8", "replace")
    except TimeoutError as error:
        raise FunctionsError("Pip install timed out") from error
    except asyncio.CancelledError:
        if not any(token.is_cancelled() for token in tokens):
            raise
        raise FunctionsError("Pip install was cancelled") from None
    finally:
        await _end(process)
    if process.returncode != 0:
        raise FunctionsError(f"Pip install failed. {output}")
    return output


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
        await process.wait()
