"""The types of chat messages and events of this program, by name: those that were defined, and no others."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from pydantic import BaseModel

from .errors import MessageTypeError, UnknownMessageTypeError

_known: dict[str, list[type[Any]]] = {}  # several, where modules share a name


def remember(cls: type[BaseModel]) -> None:
    """Make a class known by its name; one that a reloaded module made again takes the place of the first."""
    if inspect.isabstract(cls):
        return
    others = [other for other in _known.get(type_name(cls), ()) if _full(other) != _full(cls)]
    _known[type_name(cls)] = [*others, cls]


@cache
def type_name(cls: type[BaseModel]) -> str:
    """The name by which data names a class: the default of its field `type`, else the class's own."""
    field = cls.model_fields.get("type")
    return field.default if field is not None and isinstance(field.default, str) else cls.__name__


def class_named(name: Any) -> type[Any]:
    """The class of a name.

    Raises:
        UnknownMessageTypeError: There is none (a ValueError).
        MessageTypeError: Several modules define one of that name (a ValueError).
    """
    classes = _known.get(name, ()) if isinstance(name, str) else ()
    if not classes:
        raise UnknownMessageTypeError(str(name)[:200])
    if len(classes) > 1:
        places = " and ".join(sorted(_full(cls) for cls in classes))
        raise MessageTypeError(name, f"{places} share this name; give one of them another.")
    return classes[0]


def _full(cls: type[BaseModel]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
