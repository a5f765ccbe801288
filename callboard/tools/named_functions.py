"""Functions by name: `module:qualname`. Nothing else of a configuration is ever executed."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from callboard.foundation.component import ComponentNotAllowedError, NotDumpableError, permissions

from .errors import UNUSABLE, ToolDeclarationError

UNNAMEABLE: Final = "can't be named in a configuration"


def path_of(function: Callable[..., Any]) -> str:
    """The place that a function can be imported from.

    Raises:
        ToolDeclarationError: Nowhere (a ValueError).
    """
    name = getattr(function, "__qualname__", None)
    if name is None or isinstance(function, functools.partial) or inspect.ismethod(function):
        raise ToolDeclarationError(
            repr(function), "only a function of a module can be; write one that calls it", UNNAMEABLE
        )
    module = _module_of(function, name)
    target = f"{module}:{name}"
    if "<" in name:
        raise ToolDeclarationError(target, "define it at the top level of a module, with a name", UNNAMEABLE)
    found: Any = import_function(target)
    # A script that is imported is there twice, once as __main__.
    is_twice = function.__module__ == "__main__"
    if not is_twice and found is not function and getattr(found, "function", None) is not function:
        raise ToolDeclarationError(target, "another object has this name now", UNNAMEABLE)
    return target


def _module_of(function: Callable[..., Any], name: str) -> str:
    module = function.__module__
    if module != "__main__":
        return module
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is None:
        raise ToolDeclarationError(
            f"__main__:{name}",
            "other processes have another __main__: put it into a module of its own",
            UNNAMEABLE,
        )
    found: str = spec.name
    return found.removesuffix(".__main__")


def import_function(target: str, modules: Sequence[str] | None = None) -> Callable[..., Any]:
    """The function, or the tool made of it by @tool, that a text names.

    Args:
        target: ``module:qualname``.
        modules: Modules and packages from which it may come; None: any.

    Raises:
        ToolDeclarationError: It has another form, may not be used, or is not there (a ValueError).
    """
    module, _, name = target.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        raise ToolDeclarationError(target, "write module:function", UNUSABLE)
    if modules is not None and not is_from(module, modules):
        raise ToolDeclarationError(
            target, f"functions may only come from {', '.join(modules) or 'nowhere'}", UNUSABLE
        )
    found = _imported(module, target)
    for part in name.split("."):
        if not hasattr(found, part):
            raise ToolDeclarationError(target, f"there is no {part!r} in it", UNUSABLE)
        found = getattr(found, part)
    if not callable(found) or inspect.isclass(found):
        raise ToolDeclarationError(target, f"it is a {type(found).__name__}, no function", UNUSABLE)
    if modules is not None and not is_from(_home_of(found), modules):
        raise ToolDeclarationError(
            target, f"it is a function of {_home_of(found)}, which is none of those allowed", UNUSABLE
        )
    function: Callable[..., Any] = found
    return function


def function_path(function: Callable[..., Any], owner: object) -> str:
    """The place of a function that is a part of a component, for `_to_config`.

    Raises:
        NotDumpableError: It can't be imported from anywhere (a TypeError).
    """
    try:
        return path_of(function)
    except ToolDeclarationError as error:
        raise NotDumpableError(type(owner).__name__, str(error)) from error


def function_at(target: str) -> Callable[..., Any]:
    """The function that a config names, for `_from_config`.

    Raises:
        ComponentNotAllowedError: The caller of `load_component` did not allow its module (a ValueError).
        ToolDeclarationError: It is not there (a ValueError).
    """
    return import_function(target, allowed_modules(target))


def allowed_modules(target: str) -> list[str]:
    """Modules whose functions a config may name; that of the target is among them.

    Raises:
        ComponentNotAllowedError: It is not (a ValueError).
    """
    modules = sorted(permissions().modules)
    module = target.partition(":")[0]
    if not is_from(module, modules):
        raise ComponentNotAllowedError(f"importing the function {target}", "modules", module)
    return modules


def _home_of(found: Any) -> str:
    """The module that a function was written in: what a module imports is not its own, such as `tools:os.system`."""
    function = getattr(found, "function", found)
    home: str = getattr(function, "__module__", None) or "builtins"
    return home


def is_from(module: str, modules: Sequence[str]) -> bool:
    """Whether a module is one of these, or inside one of these packages."""
    return any(module == one or module.startswith(f"{one}.") for one in modules)


def _imported(module: str, target: str) -> Any:
    try:
        return importlib.import_module(module)
    except Exception as error:  # importing a user's module may raise anything
        raise ToolDeclarationError(target, f"{type(error).__name__}: {error}", "can't be imported") from error
