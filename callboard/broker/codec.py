"""Message classes by wire name, and how their values become bytes and come back."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast
from uuid import UUID

import msgpack
import pydantic
import pydantic_core
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from .errors import (
    BrokerError,
    DecodeError,
    EncodeError,
    SettingsError,
    unaccepted_version,
    unknown_message,
)
from .limits import DEFAULT, ODD_DOUBLE, Limits, is_json, unpack, walk
from .shape import Shape

T = TypeVar("T")
WIRE_NAME: Final = re.compile(r"[^\s\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,128}\Z")
NAME_ATTRIBUTE: Final = "__callboard_message__"

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]


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


# The classes of an application

SIMPLE: Final[Mapping[type, str]] = {
    str: "str",
    int: "int",
    float: "float",
    bool: "bool",
    bytes: "bytes",
    list: "list",
    dict: "dict",
    type(None): "none",
}


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
            SettingsError: another class has the name, the class has another name, or version and upgrades
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
            SettingsError: another class has its name.
        """
        entry = self._by_class.get(type(value))
        return self._register(type(value), _info_of(type(value))) if entry is None else entry

    def entry(self, name: str) -> MessageEntry:
        """The entry of a wire name.

        Raises:
            DecodeError: no class of that name is registered.
        """
        try:
            return self._by_name[name]
        except KeyError:
            raise unknown_message(name) from None

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
            DecodeError: see MessageEntry.decode; or no class of that name is registered.
        """
        try:
            entry = self._by_name[name]  # as `entry` does: one call less for each message
        except KeyError:
            raise unknown_message(name) from None
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


def _taken(name: str, first: str, second: str) -> SettingsError:
    advice = "give one of them another with @message(name=...)"
    return SettingsError(f"{second} can't be registered as {name!r}: {first} has that name; {advice}", second)


def _misfit(name: str, version: int, reason: str) -> SettingsError:
    return SettingsError(f"{name} can't have version {version} with these upgrades: {reason}", name)


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


# One class: its values as bytes, and back

OWN: Final = "__callboard_plain__"
CAN_FAIL: Final = (
    TypeError,
    ValueError,
    OverflowError,
    RecursionError,
    AttributeError,
    pydantic_core.PydanticSerializationError,
)


class Encoder(Protocol):
    """Writes the values of one class."""

    def __call__(self, value: Any, limits: Limits = ..., /) -> bytes: ...


def pack(value: Any, limits: Limits = DEFAULT) -> bytes:
    """Packs plain data; dates, UUIDs, decimals, sets, enums, paths become what JSON has for them.

    Args:
        value: what to pack.
        limits: what a body may be; its length is the sender's to check, who may keep it beside the stream.

    Raises:
        EncodeError: something in it can't be written.
    """
    try:
        made = pack_body(plain(value, limits.max_depth))
        if len(made) > limits.max_elements or ODD_DOUBLE.search(made) is not None:
            check(made, limits, allow_nan=False)
    except CAN_FAIL as error:
        raise EncodeError(type(value).__name__, _why(error)) from error
    return made


class MessageEntry:
    """One registered class: its wire name, its version, and the two functions.

    A class may have a method ``__callboard_plain__(max_depth)``, which returns its fields as `plain` does, the same as
    pydantic would write: that takes half of the time where pydantic would call a function for a part of it.

    Attributes:
        cls: the class.
        name: wire name.
        version: version that is written.
        encode: value and limits -> bytes; raises EncodeError when something in the value can't be written, or a
            reader with these limits would refuse it.
        upgrades: older version -> function from its data to the next version's.
    """

    __slots__ = (
        "_allows_nan",
        "_is_copied",
        "_is_nested",
        "_validate",
        "_validate_json",
        "cls",
        "encode",
        "name",
        "upgrades",
        "version",
    )

    def __init__(self, cls: type[Any], name: str, version: int, upgrades: Mapping[int, Upgrade]) -> None:
        self.cls = cls
        self.name = name
        self.version = version
        self.upgrades = dict(upgrades)
        self._allows_nan = False
        self._is_nested = cls in (dict, list)
        self._is_copied = False
        self.encode: Encoder
        self._validate: Callable[[Any], Any]
        self._validate_json: Callable[[bytes], Any] | None = None
        if cls in SIMPLE:
            self.encode, self._validate = pack, self._check_simple
        else:
            self._choose()

    def nature(self, value: object) -> str:
        """A text that tells `value` from others that a handler sends at once, in every attempt; "" when its number does."""
        return ""

    def _choose(self) -> None:
        schema, serializer, validator = _core_of(self.cls)
        shape = Shape.of(schema)
        self._allows_nan = shape.allows_nan
        self._is_nested = shape.is_nested
        self._is_copied = shape.is_copied
        self.encode = _encoder(self.cls, serializer, shape)
        self._validate = _validator(validator, shape)
        names = _names(shape)
        self._validate_json = lambda body: validator.validate_json(body, **names)

    def _check_simple(self, data: Any) -> Any:
        if type(data) is int and self.cls is float:
            return float(data)
        if type(data) is not self.cls:
            raise DecodeError(f"{self.name}: the body holds {type(data).__name__}")
        return data

    def decode(
        self,
        body: bytes,
        version: int | None = None,
        limits: Limits = DEFAULT,
        shared: SharedBody | None = None,
    ) -> Any:
        """Reads a body.

        Args:
            body: msgpack or JSON.
            version: the version it was written as; None for the current one.
            limits: what a body may be.
            shared: what those who read the same body have in common; each of them gets a value of its own.

        Raises:
            DecodeError: it can't be read or does not fit the class; the text names fields, no values.
            DecodeError: the version is newer, or has no upgrade.
        """
        if self._allows_nan:
            limits = limits.with_nan()
        # guard: readers of one body share no value
        if shared is not None and self._is_copied and version == self.version:
            data = shared.unpacked(body, limits, self._is_nested)
        else:
            data = unpack(body, limits, is_nested=self._is_nested)
        try:
            if version is not None and version != self.version:
                return self._validate(self._upgrade(data, version))
            if body[0] < 0x80 and self._validate_json is not None and is_json(body):
                return self._validate_json(body)  # what a text means for a field may differ in JSON
            return self._validate(data)
        except DecodeError:
            raise
        except pydantic_core.ValidationError as error:
            raise DecodeError(f"{self.name}: {_sentence(error)}") from error
        except Exception as error:  # a validator of the class may raise anything
            raise DecodeError(f"{self.name}: a validator failed with {type(error).__name__}") from error

    def _upgrade(self, data: Any, version: int) -> Any:
        while version != self.version:
            step = self.upgrades.get(version)
            if step is None:
                raise unaccepted_version(self.name, version, sorted((*self.upgrades, self.version)))
            if not isinstance(data, dict):
                raise DecodeError(f"{self.name}: only a map can be upgraded, not a {type(data).__name__}")
            try:
                data = step(data)
            except Exception as error:  # it is the application's function
                failure = f"the upgrade from version {version} failed with {type(error).__name__}"
                raise DecodeError(f"{self.name}: {failure}") from error
            version += 1
        return data


def _core_of(cls: type[Any]) -> tuple[Any, pydantic_core.SchemaSerializer, Any]:
    """The schema of a class and the two objects pydantic made of it."""
    try:
        if issubclass(cls, pydantic.BaseModel):
            if not cls.__pydantic_complete__:
                cls.model_rebuild()
            return cls.__pydantic_core_schema__, cls.__pydantic_serializer__, cls.__pydantic_validator__
        adapter: Any = pydantic.TypeAdapter(cls)
    except (pydantic.errors.PydanticUserError, NameError) as error:
        reason = str(error).partition("\n")[0]
        raise EncodeError(cls.__name__, f"pydantic can't describe the class: {reason}") from error
    return adapter.core_schema, adapter.serializer, adapter.validator


def _encoder(cls: type[Any], serializer: pydantic_core.SchemaSerializer, shape: Shape) -> Encoder:
    to_python, odd_float = serializer.to_python, ODD_DOUBLE.search
    allow_nan, is_open, levels = shape.allows_nan, shape.is_open, shape.levels
    may_be_odd = shape.has_numbers and not allow_nan
    own: Callable[[Any, int], Any] | None = getattr(cls, OWN, None)

    def encode(value: Any, limits: Limits = DEFAULT) -> bytes:
        try:
            if own is not None:
                made = pack_body(own(value, limits.max_depth))
            else:
                data = to_python(value, by_alias=False, round_trip=True)
                made = pack_body(plain(data, limits.max_depth) if is_open else data)
            if (
                len(made) > limits.max_elements
                or levels > limits.max_depth
                or (may_be_odd and odd_float(made) is not None)
            ):
                check(made, limits, allow_nan)
        except pydantic_core.PydanticSerializationError as error:
            return _encode_as_json(cls, serializer, value, limits, error)
        except CAN_FAIL as error:
            raise EncodeError(cls.__name__, _why(error)) from error
        return made

    return encode


def _encode_as_json(
    cls: type[Any], serializer: pydantic_core.SchemaSerializer, value: Any, limits: Limits, cause: Exception
) -> bytes:
    """Some types say only how they are written in JSON. Not the first choice: bytes are no text there."""
    try:
        return pack(serializer.to_python(value, mode="json", by_alias=False, round_trip=True), limits)
    except (*CAN_FAIL, EncodeError):
        raise EncodeError(cls.__name__, _why(cause)) from cause


def _validator(validator: Any, shape: Shape) -> Callable[[Any], Any]:
    """How data become a value: as python objects, or as JSON where the class takes them only in this way."""
    names = _names(shape)

    def from_json(data: Any) -> Any:
        return validator.validate_json(pydantic_core.to_json(data, inf_nan_mode="constants"), **names)

    def from_python_or_json(data: Any) -> Any:
        try:
            return validator.validate_python(data, **names)
        except pydantic_core.ValidationError:
            if shape.has_bytes:
                raise
        return from_json(data)

    if shape.is_strict:
        # Strict fields take a date or a UUID as text only from JSON. With bytes that way is closed.
        if shape.has_bytes:
            return lambda data: validator.validate_python(data, strict=False, **names)
        return from_json
    if shape.is_json_only:
        return from_python_or_json
    if names:
        return lambda data: validator.validate_python(data, **names)
    validate: Callable[[Any], Any] = validator.validate_python
    return validate


def _names(shape: Shape) -> dict[str, bool]:
    """By which names fields are read. Written they are by their own, which may be the alias of another."""
    return {"by_alias": not shape.has_crossed_aliases, "by_name": True} if shape.has_aliases else {}


def _why(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deep or holds itself"
    if isinstance(error, OverflowError):
        return "it holds a whole number beyond 64 bits"
    return str(error).partition("\n")[0] or type(error).__name__


def _sentence(error: pydantic_core.ValidationError) -> str:
    parts = []
    for item in error.errors(include_url=False, include_context=False, include_input=False)[:5]:
        where = ".".join(str(part) for part in item["loc"]) or "the value"
        parts.append(f"{where}: {item['msg']}")
    more = error.error_count() - len(parts)
    return "; ".join(parts) + (f"; and {more} more" if more > 0 else "")


# Plain data as msgpack

# msgpack has no types; without an autoreset Packer of its own it always returns bytes.
packb: Final = cast("Callable[..., bytes]", msgpack.packb)

_AS_IS: Final = frozenset({str, int, float, bool, bytes, type(None)})
_LISTS: Final = (list, tuple, set, frozenset, deque)
_TEXT: Final[Mapping[type, Callable[[Any], Any]]] = {
    datetime: datetime.isoformat,
    date: date.isoformat,
    time: time.isoformat,
    UUID: str,
    Decimal: str,
    set: list,
    frozenset: list,
    deque: list,
}


MOST_KEPT: Final = 65_536  # bytes that a packer packed which is used again
MOST_PACKERS: Final = 8  # that are kept: more than are in use at once, but for many threads
_packers: list[Callable[[Any], bytes]] = []


class UnwritableError(BrokerError, ValueError):
    """A value can't be written; the text says why. What packs messages makes an EncodeError of it."""


def pack_body(value: Any) -> bytes:
    """The same as packb, with a substitute for what msgpack does not have, in half the time.

    To make a packer takes as long as to pack a small body, so packers are used again. Each call has one for itself: a
    substitute may pack something, and another thread may run meanwhile.

    Raises:
        UnwritableError: see `substitute`.
        TypeError, ValueError, OverflowError: msgpack can't write the value.
    """
    try:
        pack = _packers.pop()
    except IndexError:
        pack = msgpack.Packer(default=substitute).pack
    packed: bytes = pack(value)
    # A packer keeps its buffer. One that raised an error is not used again either.
    if len(packed) <= MOST_KEPT and len(_packers) < MOST_PACKERS:
        _packers.append(pack)
    return packed


def substitute(value: Any) -> Any:
    """The value that is written in place of one that msgpack does not have.

    Raises:
        UnwritableError: it is a secret.
        PydanticSerializationError: nothing is known for its type.
    """
    known = _TEXT.get(type(value))
    if known is not None:
        return known(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    _refuse_secret(value)
    try:
        return to_jsonable_python(value)
    except (PydanticSerializationError, ValueError) as error:
        raise PydanticSerializationError(f"there is a {type(value).__name__} in it") from error


def _refuse_secret(value: Any) -> None:
    from pydantic import Secret, SecretBytes, SecretStr

    if isinstance(value, SecretStr | SecretBytes | Secret):
        raise UnwritableError.saying(
            f"there is a {type(value).__name__} in it, and secrets stay out of messages: "
            "send a name to look it up by, or reveal it in a field_serializer"
        )


def plain(value: Any, max_depth: int = DEFAULT.max_depth, depth: int = 0) -> Any:
    """A value made only of what msgpack has, with text as map keys.

    Args:
        value: anything.
        max_depth: containers within containers that are accepted.
        depth: containers that the value is in.

    Raises:
        UnwritableError: two keys become the same text, a key can't become text, or it is nested too deep.
        PydanticSerializationError: nothing is known for the type of a value.
    """
    kind = type(value)
    if kind in _AS_IS:
        return value
    if kind is dict or isinstance(value, Mapping):
        return _plain_map(value, max_depth, depth + 1)
    if isinstance(value, _LISTS):
        _check_depth(depth + 1, max_depth)
        return [item if type(item) in _AS_IS else plain(item, max_depth, depth + 1) for item in value]
    if isinstance(value, str | int | float | bytes | bytearray | memoryview) and not isinstance(value, Enum):
        return value
    return plain(substitute(value), max_depth, depth)


def _plain_map(value: Mapping[Any, Any], max_depth: int, depth: int) -> dict[str, Any]:
    _check_depth(depth, max_depth)
    made = {
        key if type(key) is str else key_text(key): item
        if type(item) in _AS_IS
        else plain(item, max_depth, depth)
        for key, item in value.items()
    }
    if len(made) != len(value):
        raise UnwritableError.saying("two keys of a map are the same as text")
    return made


def _check_depth(depth: int, max_depth: int) -> None:
    if depth > max_depth:
        raise UnwritableError.saying(f"it is nested deeper than {max_depth}")


def key_text(key: Any) -> str:
    """A map key as text, as JSON has it."""
    if type(key) is str:
        return key
    if isinstance(key, Enum):
        return key_text(key.value)
    if isinstance(key, bool):
        return "true" if key else "false"
    if key is None:
        return "None"
    if isinstance(key, int | float | str):
        return str(key)
    if isinstance(key, bytes):
        return key.decode()
    text = substitute(key)
    if not isinstance(text, str):
        raise UnwritableError.saying(f"a map has a {type(key).__name__} as key, which can't become text")
    return text


def check(body: bytes, limits: Limits, allow_nan: bool) -> None:
    """Raises UnwritableError when a reader with the same limits would refuse a body."""
    try:
        walk(body, limits.max_depth, limits.max_elements, allow_nan)
    except DecodeError as error:
        raise UnwritableError.saying(error.reason) from error


class SharedBody:
    """Data that the readers of one body have in common, from the first who asks to the last.

    Attributes:
        readers: those who have not asked yet.
    """

    __slots__ = ("_data", "_limits", "readers")

    def __init__(self) -> None:
        self.readers = 1
        self._data: Any = None
        self._limits: Limits | None = None  # with which the data were unpacked; None: there are none

    def unpacked(self, body: bytes, limits: Limits, is_nested: bool) -> Any:
        """The data of the body, for one reader, who must neither change nor keep them.

        Raises:
            DecodeError: see `unpack`.
        """
        self.readers -= 1
        if self._limits is limits:
            data = self._data
        else:
            data, self._limits = unpack(body, limits, is_nested=is_nested), limits
        if self.readers > 0:
            self._data = data
        else:
            self._data = self._limits = None
        return data
