"""Which message classes exist, by wire name. Nothing is ever imported because a message names it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import pydantic

from .errors import EncodeError, MessageNameTakenError, SettingsError, UnknownMessageError
from .limits import DEFAULT, Limits
from .payload import SIMPLE, MessageEntry, Upgrade

T = TypeVar("T")
WIRE_NAME = re.compile(r"[^\s\x00-\x1f\x7f]{1,128}\Z")
NAME_ATTRIBUTE = "__callboard_message__"


@dataclasses.dataclass(frozen=True, slots=True)
class MessageInfo:
    """What @message says of a class."""

    name: str | None = None
    version: int = 1
    upgrade_from: Mapping[int, Upgrade] = dataclasses.field(default_factory=dict)


def message(
    *, name: str | None = None, version: int = 1, upgrade_from: Mapping[int, Upgrade] | None = None
) -> Callable[[type[T]], type[T]]:
    """Gives a message class another wire name or a version.

    Args:
        name: wire name, default the name of the class.
        version: raise it when the fields change.
        upgrade_from: for each older version that is still accepted, a function from its data to the next version's.
    """

    def mark(cls: type[T]) -> type[T]:
        setattr(cls, NAME_ATTRIBUTE, MessageInfo(name, version, dict(upgrade_from or {})))
        return cls

    return mark


class MessageRegistry:
    """Message classes of one application. Simple values (str, int, list, ...) are always known."""

    def __init__(self) -> None:
        self._by_name: dict[str, MessageEntry] = {}
        self._by_class: dict[type[Any], MessageEntry] = {}
        for cls, name in SIMPLE.items():
            self._add(MessageEntry(cls, name, 1, {}))

    def _add(self, entry: MessageEntry) -> None:
        self._by_name[entry.name] = entry
        self._by_class[entry.cls] = entry

    def register(self, *classes: type[Any]) -> None:
        """Makes classes known. Safe to repeat.

        Raises:
            MessageNameTakenError: another class has the name.
            EncodeError: it is no pydantic model, dataclass or simple type.
            SettingsError: its wire name is not valid.
        """
        for cls in classes:
            if cls not in self._by_class:
                self._register(cls)

    def _register(self, cls: type[Any]) -> MessageEntry:
        info = cls.__dict__.get(NAME_ATTRIBUTE) or MessageInfo()
        name = info.name or cls.__name__
        if not WIRE_NAME.match(name):
            raise SettingsError(f"{name!r} can't be the name of a message: 1 to 128 characters without spaces")
        known = self._by_name.get(name)
        if known is not None and not _is_same(known.cls, cls):
            raise MessageNameTakenError(name, _full(known.cls), _full(cls))
        if not (issubclass(cls, pydantic.BaseModel) or dataclasses.is_dataclass(cls)):
            raise EncodeError(cls.__name__, "make it a pydantic model or a dataclass")
        entry = MessageEntry(cls, name, info.version, info.upgrade_from)
        self._add(entry)
        return entry

    def entry_for(self, value: object) -> MessageEntry:
        """The entry for the class of a value; a model or dataclass is registered when it is first seen."""
        entry = self._by_class.get(type(value))
        return self._register(type(value)) if entry is None else entry

    def entry(self, name: str) -> MessageEntry:
        """The entry of a wire name.

        Raises:
            UnknownMessageError: no class of that name is registered.
        """
        try:
            return self._by_name[name]
        except KeyError:
            raise UnknownMessageError(name) from None

    def decode(self, name: str, version: int, body: bytes, limits: Limits = DEFAULT) -> Any:
        """Reads a message.

        Raises:
            DecodeError: see MessageEntry.decode.
        """
        return self.entry(name).decode(body, version, limits)

    def is_known(self, name: str) -> bool:
        """Whether a class of this wire name is registered."""
        return name in self._by_name

    def name_of(self, cls: type[Any]) -> str:
        """Wire name of a class; registers it."""
        self.register(cls)
        return self._by_class[cls].name

    def __iter__(self) -> Iterator[MessageEntry]:
        return iter(self._by_name.values())


def _full(cls: type[Any]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _is_same(first: type[Any], second: type[Any]) -> bool:
    """The same class, or the one that a reloaded module or a repeated notebook cell made again."""
    return first is second or _full(first) == _full(second)
