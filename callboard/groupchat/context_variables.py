"""Context variables: what a chat's agents know beside its messages, shared with functions and other processes."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Self

from .errors import GroupChatDeclarationError


class ContextVariables(UserDict[str, Any]):
    """Values by name, which agents and tools share. Plain data that fits into JSON can be saved, and crosses processes.

    Args:
        data: The values.
        **values: More of them.
    """

    def __init__(self, data: Mapping[str, Any] | None = None, /, **values: Any) -> None:
        # `data=` is AG2's name for the first one.
        given = values.pop("data") if data is None and isinstance(values.get("data"), Mapping) else data
        super().__init__(given, **values)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The variables of a dictionary."""
        return cls(data)

    def set(self, key: str, value: Any) -> None:
        """Give a variable a value."""
        self[key] = value

    def remove(self, key: str) -> bool:
        """Take a variable away; whether there was one."""
        return self.pop(key, self) is not self

    def contains(self, key: str) -> bool:
        """Whether there is a variable."""
        return key in self

    def to_dict(self) -> dict[str, Any]:
        """The values as a dictionary of its own."""
        return dict(self.data)


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
    """The differences from a snapshot, as metadata of a message; nothing, where there are none.

    Raises:
        GroupChatDeclarationError: A value is no plain data (a ValueError).
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
            raise GroupChatDeclarationError(
                f"The context variable {name!r} can't be shared: {error}. Its value has to fit into JSON: texts, numbers, "
                "lists, dictionaries, true, false, null."
            ) from error
    return json.dumps(dict(values))


PARAMETER: Final = "context_variables"


def with_variables(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function without a parameter for the context variables: it gets those that are in force."""
    signature = inspect.signature(function)
    if PARAMETER not in signature.parameters:
        return function

    @functools.wraps(function)
    def given(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs, context_variables=current_variables())

    @functools.wraps(function)
    async def given_async(*args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs, context_variables=current_variables())

    left = [one for name, one in signature.parameters.items() if name != PARAMETER]
    made: Any = given_async if inspect.iscoroutinefunction(function) else given
    made.__signature__ = signature.replace(parameters=left)
    return made  # type: ignore[no-any-return]


def takes_variables(function: Callable[..., Any]) -> bool:
    """Whether a function, or what `with_variables` has made of it, gets the context variables."""
    try:
        return PARAMETER in inspect.signature(inspect.unwrap(function), follow_wrapped=False).parameters
    except (TypeError, ValueError):  # written in C
        return False


PLACES: Final = re.compile(r"\{(\w+)(?::([^{}]*))?\}")
WITH_BRACES: Final = re.compile(rf"\{{\{{|\}}\}}|{PLACES.pattern}")


@dataclass(frozen=True)
class ContextStr:
    """A text with variables in braces, such as ``"The customer is {name}."``.

    Args:
        template: The text. A variable may have a format behind a colon: ``{price:.2f}``. As in AG2 ``{{`` and ``}}`` are
            braces; where there is no ``{{``, ``}}`` is what it is, as in JSON.
    """

    template: str

    def format(self, context_variables: Mapping[str, Any]) -> str:
        """The text with the values. A variable that is not there, or does not fit its format, stays in its braces."""
        places = WITH_BRACES if "{{" in self.template else PLACES
        return places.sub(lambda place: _filled(place, context_variables), self.template)

    def __str__(self) -> str:
        return f"ContextStr, unformatted: {self.template}"


def _filled(place: re.Match[str], values: Mapping[str, Any]) -> str:
    name, how = place[1], place[2] or ""
    if name is None:
        return place[0][0]
    if name not in values:
        return place[0]
    try:
        return format(values[name], how)
    except (TypeError, ValueError, ArithmeticError):  # one that is too large for its format
        return place[0]
