"""How context variables are shared: with functions in this process, and with agents in others by what messages say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from .context_variables import ContextVariables
from .errors import SharedVariableError

VARIABLES: Final = "context_variables"
"""Where the metadata of a message has what was changed, as JSON."""

REMOVED: Final = "context_variables_removed"
"""Where it has the names of those that were removed."""

_current: Final[ContextVar[ContextVariables]] = ContextVar("callboard_context_variables")


def current_variables() -> ContextVariables:
    """The context variables in force; outside a run an empty set of variables."""
    found = _current.get(None)
    return ContextVariables() if found is None else found


@contextmanager
def in_force(variables: ContextVariables) -> Iterator[None]:
    """For the length of a ``with`` block these are the variables of the run."""
    token = _current.set(variables)
    try:
        yield
    finally:
        _current.reset(token)


def snapshot(values: Mapping[str, Any]) -> dict[str, str]:
    """How some variables stand; as text, since a list that is added to stays the same object."""
    return {name: standing(value) for name, value in values.items()}


def standing(value: Any) -> str:
    """How one of them stands."""
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        # An agent of this process may have had it from the beginning.
        return f"object {id(value)}"


def changes(before: Mapping[str, str], after: Mapping[str, Any]) -> dict[str, str]:
    """What is different since a snapshot, as metadata of a message; nothing, where nothing is.

    Raises:
        SharedVariableError: A value is no plain data (a ValueError).
    """
    new = {name: value for name, value in after.items() if before.get(name) != standing(value)}
    removed = sorted(before.keys() - after.keys())
    said = {VARIABLES: _json(new)} if new else {}
    return {**said, REMOVED: json.dumps(removed)} if removed else said


def take_over(variables: ContextVariables, metadata: Mapping[str, str]) -> None:
    """Change variables as the metadata of a message says."""
    for name in json.loads(metadata.get(REMOVED, "[]")):
        variables.remove(name)
    variables.update(json.loads(metadata.get(VARIABLES, "{}")))


def _json(values: Mapping[str, Any]) -> str:
    for name, value in values.items():
        try:
            json.dumps([name, value], ensure_ascii=False).encode()  # which lone surrogates don't have
        except (TypeError, ValueError, RecursionError) as error:
            raise SharedVariableError(name, str(error)) from error
    return json.dumps(dict(values))
