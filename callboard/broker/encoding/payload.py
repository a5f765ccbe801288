"""How the values of one class become bytes and come back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import pydantic
import pydantic_core

from callboard.broker.errors import DecodeError, EncodeError, UnsupportedVersionError

from .limits import DEFAULT, Limits, is_json, unpack
from .msgpack_walk import ODD_DOUBLE
from .plain import UnknownTypeError, check, pack_body, plain
from .shape import Shape
from .sharing import SharedBody

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]
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
        """What tells `value` from other messages that a handler sends at once, in every attempt; "" when its number does."""
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
            UnsupportedVersionError: the version is newer, or has no upgrade.
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
                raise UnsupportedVersionError(
                    name=self.name, version=version, accepted=sorted((*self.upgrades, self.version))
                )
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
        except (UnknownTypeError, pydantic_core.PydanticSerializationError) as error:
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
