"""Runs inside runs, as one text that travels with messages.

A path names runs from the outermost to the innermost one, with RUN between them; a run may have parts, with PART before
each, such as one conversation of several, or the turn of a nested team: `42 PART @8f1c PART /3`. What is used counts for
each of them.
"""

from __future__ import annotations

from typing import Final

from callboard.errors import SettingValueError

RUN: Final = "\x1f"
PART: Final = "\x1e"
MOST_PATH: Final = 2_000  # characters


def id_in(path: str) -> str:
    """The id of the innermost run."""
    return path.rpartition(RUN)[2].partition(PART)[0]


def names_in(path: str) -> list[str]:
    """The names of all runs and their parts: `42`, `42@8f1c`, `42@8f1c/3`; the larger ones first."""
    names: list[str] = []
    for run in path.split(RUN):
        name = ""
        for part in run.split(PART):
            name += part
            names.append(name)
    return names


def with_part(path: str, part: str) -> str:
    """The path of a part of a run.

    Raises:
        SettingValueError: There are too many of them inside each other.
    """
    return _checked(f"{path}{PART}{part}")


def within(outer: str | None, path: str) -> str:
    """The path of a run inside another one, if there is one.

    Raises:
        SettingValueError: There are too many of them inside each other.
    """
    return path if outer is None else _checked(f"{outer}{RUN}{path}")


def _checked(path: str) -> str:
    if len(path) > MOST_PATH:
        raise SettingValueError(
            "run", repr(id_in(path)), "inside fewer others: runs that start runs are too deep"
        )
    return path
