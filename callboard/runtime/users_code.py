"""Whose code a file is: what is told of an error, or of a handler that blocks, names a line of the user's own."""

from __future__ import annotations

import os
import sysconfig
from functools import cache
from pathlib import Path


@cache
def is_ours(file: str) -> bool:
    """Whether a file is Callboard's."""
    return _real(file).startswith(_our_folder())


@cache
def is_users(file: str) -> bool:
    """Whether a file is the user's: not Callboard's, of Python's library or of an installed package."""
    if file.startswith("<"):
        return False
    path = _real(file)
    is_installed = {"site-packages", "dist-packages"} & set(Path(path).parts)
    return not (is_ours(file) or is_installed or path.startswith(_python_folders()))


def _real(file: str) -> str:
    try:
        return os.path.realpath(file)
    except OSError:  # the current folder was deleted
        return file


@cache
def _our_folder() -> tuple[str, ...]:
    return _as_beginnings(Path(__file__).parents[1])


@cache
def _python_folders() -> tuple[str, ...]:
    return _as_beginnings(*(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")))


def _as_beginnings(*folders: Path) -> tuple[str, ...]:
    return tuple(os.path.realpath(folder) + os.sep for folder in folders)
