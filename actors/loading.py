"""Finds the App that a command line names as `module:app`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import ActorError, did_you_mean

if TYPE_CHECKING:
    from types import ModuleType

    from .app import App

OWN_PACKAGES = ("actors", "broker", "memory")
DEFAULT_NAME = "app"


class LoadingError(ActorError):
    """`module:app` does not lead to an App."""


class BadTargetError(LoadingError, ValueError):
    """The text does not have the form `module:app`.

    Attributes:
        target: What was given.
        reason: What is wrong with it.
    """

    def __init__(self, target: str, reason: str) -> None:
        super().__init__(target, reason)
        self.target = target
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.target!r} does not name an app: {self.reason}"


class ModuleMissingError(LoadingError, LookupError):
    """There is no such module.

    Attributes:
        module: Its dotted name.
        folder: Where it was looked for first.
        nearby: Modules that are in that folder.
    """

    def __init__(self, module: str, folder: str, nearby: tuple[str, ...] = ()) -> None:
        super().__init__(module, folder, nearby)
        self.module = module
        self.folder = folder
        self.nearby = nearby

    def __str__(self) -> str:
        advice = did_you_mean(self.module, self.nearby) if self.nearby else "There are no Python files in it."
        return (
            f"there is no module {self.module!r} in {self.folder} or among the installed packages. {advice}"
        )


class ModuleFailedError(LoadingError):
    """The module exists, and importing it fails.

    Attributes:
        module: Its dotted name.
        error: The error and its class, as text.
        where: File and line that raised it; empty when unknown.
    """

    def __init__(self, module: str, error: str, where: str = "") -> None:
        super().__init__(module, error, where)
        self.module = module
        self.error = error
        self.where = where

    def __str__(self) -> str:
        place = f" at {self.where}" if self.where else ""
        return f"the module {self.module!r} can't be imported: {self.error}{place}"


class AppMissingError(LoadingError, LookupError):
    """The module has nothing of that name.

    Attributes:
        module: Its dotted name.
        name: What was looked for.
        apps: Names in the module that are apps.
    """

    def __init__(self, module: str, name: str, apps: tuple[str, ...]) -> None:
        super().__init__(module, name, apps)
        self.module = module
        self.name = name
        self.apps = apps

    def __str__(self) -> str:
        if not self.apps:
            return f"the module {self.module!r} has no {self.name!r}: add `{self.name} = App(...)` to it"
        return f"the module {self.module!r} has no {self.name!r}. Its apps: {', '.join(self.apps)}."


class NotAnAppError(LoadingError, TypeError):
    """The name leads to something else.

    Attributes:
        target: `module:name`.
        given: Class of what is there.
        apps: Names in the module that are apps.
    """

    def __init__(self, target: str, given: str, apps: tuple[str, ...] = ()) -> None:
        super().__init__(target, given, apps)
        self.target = target
        self.given = given
        self.apps = apps

    def __str__(self) -> str:
        advice = f"its apps: {', '.join(self.apps)}" if self.apps else "it has to be made with `App(...)`"
        return f"{self.target} is of class {self.given}, not App; {advice}"


def load_app(target: str, folder: Path | None = None) -> App:
    """Imports the App that `target` names.

    Args:
        target: `module:name`, with dots in both parts where needed; `module` alone means `module:app`.
        folder: Where modules are looked for first, as `python -m` does; None: the current folder.

    Raises:
        LoadingError: There is no such module or App, or importing the module fails; its text says what to do.
    """
    module_name, name = split_target(target)
    module = _import(module_name, folder or Path.cwd())
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise AppMissingError(module_name, name, _apps_in(module))
        found = getattr(found, part)
    if not _is_app(found):
        raise NotAnAppError(f"{module_name}:{name}", type(found).__name__, _apps_in(module))
    app: App = found
    return app


def split_target(target: str) -> tuple[str, str]:
    """The module and the name in it.

    Raises:
        BadTargetError: It does not have the form `module:app`.
    """
    module, colon, name = target.partition(":")
    if module.endswith(".py") or "/" in module or "\\" in module:
        dotted = ".".join(Path(module).with_suffix("").parts).strip("./")
        raise BadTargetError(target, f"write the module, not the file: {dotted}:{name or DEFAULT_NAME}")
    if not all(part.isidentifier() for part in module.split(".")):
        raise BadTargetError(
            target, "write module:app, such as counting:app for `app = App(...)` in counting.py"
        )
    if colon and not all(part.isidentifier() for part in name.split(".")):
        raise BadTargetError(target, f"what follows the colon has to be a name in {module}")
    return module, name or DEFAULT_NAME


def _import(name: str, folder: Path) -> ModuleType:
    top = name.partition(".")[0]
    if top in OWN_PACKAGES and (folder / f"{name}.py").is_file():
        raise BadTargetError(name, f"{top} is a package of callboard; give the file {name}.py another name")
    entry = str(folder)
    if entry not in sys.path:
        sys.path.insert(0, entry)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ModuleMissingError(name, entry, _modules_in(folder)) from error
        raise ModuleFailedError(name, f"{error}", _place_of(error)) from error
    except Exception as error:
        raise ModuleFailedError(name, f"{type(error).__name__}: {error}", _place_of(error)) from error


def _place_of(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return ""
    traceback = error.__traceback__
    place = ""
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith("<") and file != __file__ and "importlib" not in file:
            place = f"{file}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place


def _modules_in(folder: Path) -> tuple[str, ...]:
    names = [path.stem for path in folder.glob("*.py")]
    names += [path.parent.name for path in folder.glob("*/__init__.py")]
    return tuple(sorted(name for name in names if name.isidentifier() and not name.startswith("__")))


def _apps_in(module: ModuleType) -> tuple[str, ...]:
    return tuple(name for name, value in vars(module).items() if not name.startswith("_") and _is_app(value))


def _is_app(value: object) -> bool:
    from .app import App

    return isinstance(value, App)
