"""Finds the App that a command line names as `module:app`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from callboard.errors import DeclarationError, did_you_mean
from callboard.foundation.texts import is_users

if TYPE_CHECKING:
    from types import ModuleType

    from callboard.app import App


OWN_PACKAGE = "callboard"
DEFAULT_NAME = "app"


def load_app(target: str, folder: Path | None = None) -> App:
    """Imports the App that `target` names.

    Args:
        target: `module:name`, with dots in both parts where needed; `module` alone means `module:app`.
        folder: The folder in which modules are looked for first, as `python -m` does; None: the current one.

    Raises:
        DeclarationError: There is no such module or App, or importing the module fails; its text says what to do.
    """
    module_name, name = split_target(target)
    module = import_module(module_name, folder or Path.cwd())
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise DeclarationError(f"the module {module_name!r} has no {name!r}{_advice(module, name)}")
        found = getattr(found, part)
    if not _is_app(found):
        apps = _apps_in(module)
        advice = f"its apps: {', '.join(apps)}" if apps else "it has to be made with `App(...)`"
        what = (
            f"the class {found.__name__}" if isinstance(found, type) else f"of class {type(found).__name__}"
        )
        raise DeclarationError(f"{module_name}:{name} is {what}, not App; {advice}")
    app: App = found
    return app


def split_target(target: str) -> tuple[str, str]:
    """The module and the name in it.

    Raises:
        DeclarationError: It does not have the form `module:app`.
    """
    module, colon, name = target.partition(":")
    if module.endswith(".py") or "/" in module or "\\" in module:
        dotted = ".".join(Path(module).with_suffix("").parts).strip("./")
        raise _bad_target(target, f"write the module, not the file: {dotted}:{name or DEFAULT_NAME}")
    if not all(part.isidentifier() for part in module.split(".")):
        raise _bad_target(
            target, "write module:app, such as counting:app for `app = App(...)` in counting.py"
        )
    if colon and not all(part.isidentifier() for part in name.split(".")):
        raise _bad_target(target, f"what follows the colon has to be a name in {module}")
    return module, name or DEFAULT_NAME


def import_module(name: str, folder: Path) -> ModuleType:
    """Imports a module, which is looked for in `folder` first.

    Raises:
        DeclarationError: There is no such module, or importing it fails; its text says what to do.
    """
    if name == OWN_PACKAGE:
        raise _bad_target(name, f"that is our own package; give the file {name}.py another name")
    entry = str(folder)
    # In front of everything: a checkout of ours on the path has links such as memory, and the app's come first.
    if sys.path[:1] != [entry]:
        sys.path.insert(0, entry)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            nearby = _modules_in(folder)
            advice = did_you_mean(name, nearby) if nearby else "There are no Python files in it."
            raise DeclarationError(
                f"there is no module {name!r} in {entry} or among the installed packages. {advice}"
            ) from error
        raise _failed(name, f"{error}", _place_of(error)) from error
    except (Exception, SystemExit) as error:
        raise _failed(name, f"{type(error).__name__}: {error}", _place_of(error)) from error


def _bad_target(target: str, reason: str) -> DeclarationError:
    return DeclarationError(f"{target!r} does not name an app: {reason}")


def _failed(module: str, error: str, where: str) -> DeclarationError:
    return DeclarationError(
        f"the module {module!r} can't be imported: {error}{f' at {where}' if where else ''}"
    )


def _advice(module: ModuleType, name: str) -> str:
    apps = _apps_in(module)
    return f". Its apps: {', '.join(apps)}." if apps else f": add `{name} = App(...)` to it"


def _place_of(error: BaseException) -> str:
    """The innermost line of the user's; where there is none, as in an installed package, the innermost of all."""
    if isinstance(error, SyntaxError):
        return ""
    lines = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    shown = [
        (file, line)
        for file, line in lines
        if not file.startswith("<") and file != __file__ and "importlib" not in file
    ]
    of_the_user = [(file, line) for file, line in shown if is_users(file)]
    for file, line in reversed(of_the_user or shown):
        return f"{file}:{line}"
    return ""


def _modules_in(folder: Path) -> tuple[str, ...]:
    names = [path.stem for path in folder.glob("*.py")]
    names += [path.parent.name for path in folder.glob("*/__init__.py")]
    return tuple(sorted(name for name in names if name.isidentifier() and not name.startswith("__")))


def _apps_in(module: ModuleType) -> tuple[str, ...]:
    return tuple(name for name, value in vars(module).items() if not name.startswith("_") and _is_app(value))


def _is_app(value: object) -> bool:
    from callboard.app import App

    return isinstance(value, App)
