"""Python values as msgpack has them: dates, sets, enums, maps with other keys than text."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Final, cast
from uuid import UUID

import msgpack
from pydantic_core import PydanticSerializationError, to_jsonable_python

from callboard.broker.errors import DecodeError

from .limits import DEFAULT, Limits
from .msgpack_walk import walk

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


class UnwritableError(ValueError):
    """A value can't be written; the text says why. `payload` makes an EncodeError of it."""


class UnknownTypeError(UnwritableError):
    """There is nothing in msgpack for a value, and pydantic knows nothing either."""


def pack_body(value: Any) -> bytes:
    """The same as packb, with a substitute for what msgpack does not have, in half the time.

    To make a packer takes as long as to pack a small body, so packers are used again. Whoever packs has one for itself: a
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
        UnknownTypeError: nothing is known for its type.
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
        raise UnknownTypeError(f"there is a {type(value).__name__} in it") from error


def _refuse_secret(value: Any) -> None:
    from pydantic import Secret, SecretBytes, SecretStr

    if isinstance(value, SecretStr | SecretBytes | Secret):
        raise UnwritableError(
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
        UnknownTypeError: nothing is known for the type of a value.
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
        raise UnwritableError("two keys of a map are the same as text")
    return made


def _check_depth(depth: int, max_depth: int) -> None:
    if depth > max_depth:
        raise UnwritableError(f"it is nested deeper than {max_depth}")


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
        raise UnwritableError(f"a map has a {type(key).__name__} as key, which can't become text")
    return text


def check(body: bytes, limits: Limits, allow_nan: bool) -> None:
    """Raises UnwritableError when a reader with the same limits would refuse a body."""
    try:
        walk(body, limits.max_depth, limits.max_elements, allow_nan)
    except DecodeError as error:
        raise UnwritableError(error.reason) from error
