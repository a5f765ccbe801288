"""What a mutation makes of a guarded statement: it is removed, its condition is another one, it is replaced."""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import indent

from .guard import Guard

Change = Callable[[Guard], str]

LUA_CONDITION = re.compile(r"^(\s*(?:if|elseif|while) )(.*?)( (?:then|do)\b)", re.DOTALL)
PYTHON_CONDITION = re.compile(r"^(\s*(?:if|elif|while) )(.*?)(:(?=\n))", re.DOTALL)


def removed(guard: Guard) -> str:
    """The statement is not there."""
    return "" if guard.is_lua else f"{_margin(guard)}pass\n"


def twice(guard: Guard) -> str:
    """It is run twice."""
    return guard.statement * 2


def when(condition: str) -> Change:
    """It begins with `if`, `elseif` or `while`, and has this condition now."""

    def change(guard: Guard) -> str:
        pattern = LUA_CONDITION if guard.is_lua else PYTHON_CONDITION
        found = pattern.match(guard.statement)
        if found is None:
            raise ValueError(f"the guard {guard.name!r} has no condition")
        shown = condition.replace("{condition}", found[2])
        return f"{found[1]}{shown}{found[3]}{guard.statement[found.end() :]}"

    return change


def always(guard: Guard) -> str:
    """Its condition is always true."""
    return when("true" if guard.is_lua else "True")(guard)


def never(guard: Guard) -> str:
    """Its condition is never true."""
    return when("false" if guard.is_lua else "False")(guard)


def negated(guard: Guard) -> str:
    """It is run when it should not be run, and the other way round."""
    return when("not ({condition})")(guard)


def ignored(guard: Guard) -> str:
    """Its condition is looked at, with all that this does, and nothing follows from it."""
    found = LUA_CONDITION.match(guard.statement)
    if found is None:
        raise ValueError(f"the guard {guard.name!r} has no condition")
    return f"{_margin(guard)}local _ = {found[2]}\n"


def becomes(text: str) -> Change:
    """Another statement stands there; `{statement}` is the one that was there."""

    def change(guard: Guard) -> str:
        shown = indent(text, _margin(guard)) + "\n"
        return shown.replace(f"{_margin(guard)}{{statement}}\n", guard.statement)

    return change


def with_part(old: str, new: str) -> Change:
    """A part of it that says what matters is another one."""

    def change(guard: Guard) -> str:
        if guard.statement.count(old) != 1:
            raise ValueError(f"the guard {guard.name!r} has {old!r} {guard.statement.count(old)} times")
        return guard.statement.replace(old, new)

    return change


def _margin(guard: Guard) -> str:
    return guard.statement[: len(guard.statement) - len(guard.statement.lstrip(" "))]
