"""Functions that code may import, and what they need. Names are those of `autogen_core.code_executor`."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, ParamSpec, TypeAlias, TypeVar

from .errors import FunctionsError

__all__ = [
    "Alias",
    "FunctionWithRequirements",
    "FunctionWithRequirementsStr",
    "Import",
    "ImportFromModule",
    "with_requirements",
]

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
