"""What the agents of a run know beside the messages. It travels with the messages, so that it crosses processes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from callboard.groupchat.context_variables import ContextVariables
from callboard.groupchat.sharing import VARIABLES, current_variables, standing
from callboard.messages.base import BaseAgentEvent, BaseChatMessage

from .errors import ContextVariableError


def context_variables() -> ContextVariables:
    """The context variables of the run, for functions that its agents call. What is changed, the agents after this one know.

    Outside a run: an empty set of variables.
    """
    return current_variables()


def as_json(values: Mapping[str, Any]) -> dict[str, str]:
    """Each of some variables as JSON.

    Raises:
        ContextVariableError: One is no plain data (a ValueError).
    """
    if not isinstance(values, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - programs without types
        raise ContextVariableError("context_variables", f"a {type(values).__name__} has no names")
    return {_checked(name): _json(name, value) for name, value in values.items()}


def written(values: Mapping[str, str]) -> dict[str, str]:
    """Variables, each as JSON, as metadata of a message; nothing, where there are none."""
    if not values:
        return {}
    pairs = ", ".join(f"{json.dumps(name)}: {text}" for name, text in values.items())
    return {VARIABLES: f"{{{pairs}}}"}


def changes(before: Mapping[str, str], after: Mapping[str, Any]) -> dict[str, str]:
    """What is new or different since a snapshot, each as JSON; what was removed is null.

    Raises:
        ContextVariableError: One of them is no plain data (a ValueError).
    """
    new = {name: value for name, value in after.items() if before.get(name) != standing(value)}
    return {**dict.fromkeys(before.keys() - after.keys(), "null"), **as_json(new)}


def apply(variables: ContextVariables, said: Iterable[BaseChatMessage | BaseAgentEvent]) -> None:
    """Take over what messages say that was changed."""
    for message in said:
        text = message.metadata.get(VARIABLES)
        for key, value in (json.loads(text) if text else {}).items():
            if value is None:
                variables.remove(key)
            else:
                variables[key] = value


def _checked(name: object) -> str:
    if not isinstance(name, str):
        raise ContextVariableError(repr(name), f"its name is a {type(name).__name__}, and not a text")
    return name


def _json(name: str, value: Any) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise ContextVariableError(repr(name), str(error)) from error
