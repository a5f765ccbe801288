"""What the agents of a run know beside the messages. It travels with the messages, so that it crosses processes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from callboard.groupchat.context_variables import ContextVariables
from callboard.messages.base import BaseAgentEvent, BaseChatMessage

VARIABLES: Final = "context_variables"
"""Where the metadata of a message has what was changed, as JSON."""

_current: Final[ContextVar[ContextVariables]] = ContextVar("callboard_context_variables")


def context_variables() -> ContextVariables:
    """The context variables of the run, for functions that its agents call. What is changed, the agents after this one know.

    Outside a run: an empty set of variables.
    """
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


def written(values: Mapping[str, Any]) -> dict[str, str]:
    """Variables as metadata of a message; nothing, where there are none."""
    return {VARIABLES: json.dumps(dict(values))} if values else {}


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What is new or different; what was removed is None."""
    new = {key: value for key, value in after.items() if key not in before or before[key] != value}
    return {**dict.fromkeys(before.keys() - after.keys()), **new}


def apply(variables: ContextVariables, said: Iterable[BaseChatMessage | BaseAgentEvent]) -> None:
    """Take over what messages say that was changed."""
    for message in said:
        text = message.metadata.get(VARIABLES)
        for key, value in (json.loads(text) if text else {}).items():
            if value is None:
                variables.remove(key)
            else:
                variables[key] = value
