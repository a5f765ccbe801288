"""The classes that a nested model may be of: those that this process has seen, and subclasses of what messages declare.

Nothing is imported because a message names it.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

import pydantic
from pydantic import BaseModel

from callboard.broker.errors import DecodeError

from .tagging import is_record, tag_of


class KnownClasses:
    """Finds classes by their tags."""

    def __init__(self) -> None:
        self._roots: set[type[Any]] = set()
        self._loaders: dict[str, pydantic.TypeAdapter[Any]] = {}

    def add(self, cls: type[Any]) -> None:
        """A message class: what its fields declare, and all that derives from that, may come nested in it."""
        self._roots.add(cls)

    def load(self, tag: str, fields: dict[str, Any]) -> Any:
        """An object of a tagged class.

        Raises:
            DecodeError: this process has no such class.
            pydantic.ValidationError: the fields do not fit it.
        """
        loader = self._loaders.get(tag)
        if loader is None:
            loader = self._loaders[tag] = pydantic.TypeAdapter(self._find(tag))
        return loader.validate_python(fields, by_alias=False, by_name=True)

    def _find(self, tag: str) -> type[Any]:
        cls: Any  # mypy takes no class for hashable
        for cls in self._all():
            if tag_of(cls) == tag:
                found: type[Any] = cls
                return found
        raise DecodeError(
            f"this process has no class {tag!r} among those that its messages may hold: import its module"
        )

    def _all(self) -> Iterator[type[Any]]:
        seen: set[type[Any]] = set()
        waiting = list(self._roots)
        while waiting:
            cls = waiting.pop()
            if cls in seen:
                continue
            seen.add(cls)
            yield cls
            waiting += cls.__subclasses__()
            waiting += _declared(cls)


def _declared(cls: type[Any]) -> list[type[Any]]:
    """The models and dataclasses in the annotations of a class's fields."""
    if issubclass(cls, BaseModel):
        annotations = [field.annotation for field in cls.model_fields.values()]
    elif dataclasses.is_dataclass(cls):
        try:
            annotations = list(get_type_hints(cls).values())
        except NameError:  # a name that only type checkers import
            return []
    else:
        return []
    return [found for annotation in annotations for found in _in(annotation)]


def _in(annotation: Any) -> Iterator[type[Any]]:
    if get_origin(annotation) is not None or isinstance(annotation, types.UnionType):
        for part in get_args(annotation):
            yield from _in(part)
    elif isinstance(annotation, type) and annotation is not BaseModel and is_record(annotation):
        yield annotation
