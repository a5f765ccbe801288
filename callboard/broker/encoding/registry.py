"""Which message classes exist, by wire name. Nothing is ever imported because a message names it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from pydantic import BaseModel

from callboard.broker.errors import (
    EncodeError,
    MessageDeclarationError,
    SettingsError,
    UnknownMessageError,
)

from .limits import DEFAULT, Limits
from .payload import SIMPLE, MessageEntry, Upgrade
from .sharing import SharedBody

T = TypeVar("T")
WIRE_NAME: Final = re.compile(r"[^\s\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,128}\Z")
NAME_ATTRIBUTE: Final = "__callboard_message__"


class MessageInfo(NamedTuple):
    """Name, version and upgrades of a class, as @message or the caller of `register` gives them."""

    name: str | None = None
    version: int = 1
    upgrade_from: Mapping[int, Upgrade] = MappingProxyType({})


def message(
    *, name: str | None = None, version: int = 1, upgrade_from: Mapping[int, Upgrade] | None = None
) -> Callable[[type[T]], type[T]]:
    """Gives a message class another wire name or a version.

    Args:
        name: wire name, 1 to 128 characters without spaces; default the name of the class.
        version: raise it when the fields change.
        upgrade_from: for each older version still accepted, a function from its data to the next version's.
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
        replaced = self._by_name.get(entry.name)
        if replaced is not None:
            del self._by_class[replaced.cls]
        self._by_name[entry.name] = entry
        self._by_class[entry.cls] = entry

    def register(
        self,
        *classes: type[Any],
        name: str | None = None,
        version: int | None = None,
        upgrade_from: Mapping[int, Upgrade] | None = None,
    ) -> None:
        """Makes classes known. Safe to repeat.

        Args:
            classes: pydantic models (also generic ones such as Box[int]), dataclasses, named tuples.
            name: wire name of a single class; default what @message says, else the name of the class.
            version: version that is written; default what @message says, else 1.
            upgrade_from: for each older version still accepted, a function from its data to the next one's.

        Raises:
            MessageDeclarationError: another class has the name, the class has another name, or version and upgrades
                do not fit together.
            EncodeError: pydantic can't describe the class.
            SettingsError: the wire name is not valid, or one name is given for several classes.
        """
        if name is None and version is None and upgrade_from is None:
            for cls in classes:
                if cls not in self._by_class:
                    self._register(cls, _info_of(cls))
            return
        if len(classes) != 1:
            raise SettingsError("name, version and upgrade_from are for one class: register the others apart")
        marked = _info_of(classes[0])
        upgrades = marked.upgrade_from if upgrade_from is None else upgrade_from
        info = MessageInfo(name or marked.name, version or marked.version, dict(upgrades))
        self._register_as(classes[0], info)

    def _register_as(self, cls: type[Any], info: MessageInfo) -> None:
        known = self._by_class.get(cls)
        if known is None:
            self._register(cls, info)
        elif (known.name, known.version) != (info.name or cls.__name__, info.version):
            raise _taken(known.name, _full(cls), f"{_full(cls)} (again, as {info.name!r})")

    def _register(self, cls: type[Any], info: MessageInfo) -> MessageEntry:
        name = info.name or cls.__name__
        if not WIRE_NAME.match(name):
            raise SettingsError(f"{name!r} can't be a message's name: 1 to 128 characters without spaces")
        known = self._by_name.get(name)
        if known is not None and not _is_same(known.cls, cls):
            raise _taken(name, _full(known.cls), _full(cls))
        if not _can_be_message(cls):
            raise EncodeError(cls.__name__, "make it a pydantic model or a dataclass")
        _check_versions(name, info)
        entry = MessageEntry(cls, name, info.version, info.upgrade_from)
        self._add(entry)
        return entry

    def entry_for(self, value: object) -> MessageEntry:
        """The entry for the class of a value; a model or dataclass is registered when it is first seen.

        Raises:
            EncodeError: values of its class can't be sent.
            MessageDeclarationError: another class has its name.
        """
        entry = self._by_class.get(type(value))
        return self._register(type(value), _info_of(type(value))) if entry is None else entry

    def entry(self, name: str) -> MessageEntry:
        """The entry of a wire name.

        Raises:
            UnknownMessageError: no class of that name is registered.
        """
        try:
            return self._by_name[name]
        except KeyError:
            raise UnknownMessageError(name=name) from None

    def decode(
        self,
        name: str,
        version: int | None,
        body: bytes,
        limits: Limits = DEFAULT,
        shared: SharedBody | None = None,
    ) -> Any:
        """Reads a message; `version` None stands for the current one.

        Raises:
            DecodeError: see MessageEntry.decode; UnknownMessageError is one of them.
        """
        try:
            entry = self._by_name[name]  # as `entry` does: one call less for each message
        except KeyError:
            raise UnknownMessageError(name=name) from None
        return entry.decode(body, version, limits, shared)

    def versions(self) -> dict[str, int]:
        """The version of every message that is known, by wire name."""
        return {entry.name: entry.version for entry in self._by_name.values()}

    def is_known(self, name: str) -> bool:
        """Whether a class of this wire name is registered."""
        return name in self._by_name

    def name_of(self, cls: type[Any]) -> str:
        """Wire name of a class; registers it."""
        self.register(cls)
        return self._by_class[cls].name

    def __iter__(self) -> Iterator[MessageEntry]:
        return iter(list(self._by_name.values()))


def _info_of(cls: type[Any]) -> MessageInfo:
    """The info that @message gave to the class itself, not to a base class."""
    info: MessageInfo | None = cls.__dict__.get(NAME_ATTRIBUTE)
    return info or MessageInfo()


def _can_be_message(cls: type[Any]) -> bool:
    is_named_tuple = issubclass(cls, tuple) and hasattr(cls, "_fields")
    return issubclass(cls, BaseModel) or is_dataclass(cls) or is_named_tuple


def _taken(name: str, first: str, second: str) -> MessageDeclarationError:
    advice = "give one of them another with @message(name=...)"
    return MessageDeclarationError(
        second, f"can't be registered as {name!r}: {first} has that name; {advice}"
    )


def _misfit(name: str, version: int, reason: str) -> MessageDeclarationError:
    return MessageDeclarationError(name, f"can't have version {version} with these upgrades: {reason}")


def _check_versions(name: str, info: MessageInfo) -> None:
    if info.version < 1:
        raise _misfit(name, info.version, "versions begin with 1")
    for older in info.upgrade_from:
        if not 1 <= older < info.version:
            raise _misfit(name, info.version, f"an upgrade from version {older} leads nowhere")
        if older + 1 != info.version and older + 1 not in info.upgrade_from:
            reason = f"each upgrade makes one step, and the one from version {older + 1} is missing"
            raise _misfit(name, info.version, reason)


def _full(cls: type[Any]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _is_same(first: type[Any], second: type[Any]) -> bool:
    """The same class, or the one that a reloaded module or a repeated notebook cell made again."""
    return first is second or _full(first) == _full(second)
