"""Names: of classes, of roles, and what they are called on the bus."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

MESSAGE_ROUTE_FROM: Final = "sent_from"
MESSAGE_ROUTE_TO: Final = "send_to"
MESSAGE_ROUTE_CAUSE_BY: Final = "cause_by"
MESSAGE_ROUTE_TO_ALL: Final = "<all>"
MESSAGE_ROUTE_TO_NONE: Final = "<none>"
MESSAGE_ROUTE_TO_SELF: Final = "<self>"
MESSAGE_ROUTES: Final = frozenset({MESSAGE_ROUTE_TO_ALL, MESSAGE_ROUTE_TO_NONE, MESSAGE_ROUTE_TO_SELF})

JOINED: Final = ":join"  # ends the topic of those who hear all subtasks together
_NOT_IN_NAMES: Final = re.compile(r"[^\w.\-]")


def any_to_str(value: Any) -> str:
    """A text as it is; of anything else the module and name of its class, such as ``factory.WriteCode``."""
    if isinstance(value, str):
        return value
    cls = value if isinstance(value, type) else type(value)
    return f"{_module_of(cls)}.{cls.__name__}"


def any_to_str_set(value: Any) -> set[str]:
    """`any_to_str` of one thing, or of each in a list, tuple, set or dict."""
    if isinstance(value, dict):
        return {any_to_str(one) for one in value.values()}
    if isinstance(value, Iterable) and not isinstance(value, str | type):
        return {any_to_str(one) for one in value}
    return {any_to_str(value)}


def _module_of(cls: type[Any]) -> str:
    """The module of a class, by the name under which other processes import it."""
    if cls.__module__ != "__main__":
        return cls.__module__
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:  # python -m package.module
        return str(spec.name)
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else cls.__module__


def bus_name(text: str) -> str:
    """A text as an agent type or topic type: other characters than letters, digits, ``_``, ``-`` and ``.`` by number."""
    return _NOT_IN_NAMES.sub(lambda found: f"-x{ord(found[0]):x}-", text)


def topic_of(cause: str, *, joined: bool = False) -> str:
    """The topic type of an action.

    Args:
        cause: The action, see `any_to_str`.
        joined: For those who hear all subtasks together.
    """
    return bus_name(cause) + (JOINED if joined else "")
