"""Reading msgpack and JSON from any source: what is too deep, too large or odd is refused.

A small body can't do harm in the C decoder (its own stack ends at 1,024 levels, and a header that promises
more than the body holds reserves memory in proportion to it), so it is decoded first and looked at after.
A large one is walked through before anything is made of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from math import isfinite
from typing import Any, Final, NamedTuple, NoReturn

from msgpack import Packer, unpackb

from callboard.broker.errors import DecodeError
from callboard.broker.settings import DEFAULTS, BrokerSettings

from .json_limits import from_json
from .msgpack_walk import ODD_DOUBLE, ODD_SINGLE, walk

SMALL: Final = 4_096  # bytes; the 819 nested array headers that fit in reserve at most 27 MB
RESERVED: Final = 4_000_000  # slots of 8 bytes that headers of a larger body may ask for without a walk
LONG_HEADERS: Final = bytes([0xDC, 0xDD, 0xDE, 0xDF])  # array16, array32, map16, map32
CONTAINERS: Final = bytes([*range(0x80, 0xA0)]) + LONG_HEADERS
FLAT: Final = 2  # containers within containers of a map with lists of plain values
FLOATS: Final = bytes([0xCA, 0xCB])
BYTES: Final = bytes([0xC4, 0xC5, 0xC6])  # of one, two or four bytes' length
ORDINARY: Final = bytes(sorted({*range(256)} - {*CONTAINERS, *FLOATS, *BYTES}))
"""What neither opens a container nor has to be looked at."""


class Limits(NamedTuple):
    """The limits of a body, for writers and readers alike.

    Attributes:
        max_bytes: its length.
        max_depth: containers within containers; a list in a map is 2.
        max_elements: values in it, all levels together.
        allow_nan: NaN and infinity are accepted.
    """

    max_bytes: int = DEFAULTS.max_payload
    max_depth: int = DEFAULTS.max_depth
    max_elements: int = DEFAULTS.max_elements
    allow_nan: bool = False

    @classmethod
    @lru_cache(maxsize=16)
    def of(cls, settings: BrokerSettings) -> Limits:
        """The limits that the settings name."""
        return cls(settings.max_payload, settings.max_depth, settings.max_elements)

    @classmethod
    @lru_cache(maxsize=16)
    def of_claims(cls, settings: BrokerSettings) -> Limits:
        """The same for bodies that lie beside their stream: `max_claim` bytes, but no deeper and of no more values."""
        return cls(settings.max_claim, settings.max_depth, settings.max_elements)

    @lru_cache(maxsize=16)  # noqa: B019  (a handful of frozen values live for ever anyway)
    def with_nan(self) -> Limits:
        """The same, but NaN and infinity are accepted."""
        return Limits(self.max_bytes, self.max_depth, self.max_elements, allow_nan=True)


DEFAULT: Final = Limits()


def unpack(body: bytes, limits: Limits = DEFAULT, *, is_nested: bool = False) -> Any:
    """Decodes msgpack, or JSON.

    Args:
        body: what an entry of a stream holds.
        limits: what it may be.
        is_nested: more than a map with lists of plain values is likely; only a matter of speed.

    Raises:
        DecodeError: it is neither, or beyond the limits. Nothing else is raised, whatever the bytes are.
    """
    size = len(body)
    if size > limits.max_bytes:
        raise DecodeError(f"the body has {size:,} bytes, the limit is {limits.max_bytes:,}")
    if not size:
        raise DecodeError("the body is empty")
    if is_json(body):
        return from_json(body, limits.max_depth, limits.max_elements, limits.allow_nan)
    try:
        if size > limits.max_elements or (size > SMALL and _reserves_much(body)):
            walk(body, limits.max_depth, limits.max_elements, limits.allow_nan)
            return unpackb(body, ext_hook=_refuse_extension, max_ext_len=0)
        if not is_nested:
            value = unpackb(body, ext_hook=_refuse_extension, max_ext_len=0)
            if type(value) is dict and _is_flat(body, value, limits):
                return value
        return _unpack_checked(body, limits)
    except DecodeError:
        raise
    except (ValueError, TypeError, RecursionError, MemoryError, OverflowError) as error:
        raise DecodeError(f"broken msgpack: {str(error) or type(error).__name__}") from error


def is_json(body: bytes) -> bool:
    """Whether a body is JSON, if it is anything: no msgpack of two bytes or more begins with an ASCII character."""
    return body[0] < 0x80 and len(body) > 1


def _reserves_much(body: bytes) -> bool:
    size = len(body)
    return (size - len(body.translate(None, LONG_HEADERS))) * size > RESERVED


def _is_flat(body: bytes, value: dict[Any, Any], limits: Limits) -> bool:
    """Whether a map has each key once, and holds plain values and lists of them, no odd number: nothing is left to check."""
    announced = body[0] & 0x0F
    if body[0] >= 0x90:
        announced = int.from_bytes(body[1 : 3 if body[0] == 0xDE else 5], "big")
    if announced != len(value) or limits.max_depth < FLAT:
        return False
    for key, item in value.items():
        kind = type(item)
        if kind is dict or type(key) is not str:
            return False
        if kind is list:
            if not _is_row(item, limits):
                return False
        elif (
            kind is float and item - item != 0 and not limits.allow_nan
        ):  # what less itself is not 0 is not finite
            return False
    return True


def _is_row(items: list[Any], limits: Limits) -> bool:
    """Whether a list holds no container and no odd number. A loop: what runs in C takes longer to begin with for a few."""
    for item in items:
        kind = type(item)
        if kind is dict or kind is list:
            return False
        if kind is float and item - item != 0 and not limits.allow_nan:
            return False
    return True


def _unpack_checked(body: bytes, limits: Limits) -> Any:
    value = unpackb(body, ext_hook=_refuse_extension, max_ext_len=0)
    notable = body.translate(None, ORDINARY)
    if len(notable) > limits.max_depth or _may_be_odd(body, notable):
        _check_levels(value, limits)
    # guard: a key that is there twice is refused
    if _packer()(value) != body:
        value = unpackb(body, object_pairs_hook=_map_of, ext_hook=_refuse_extension, max_ext_len=0)
    return value


@cache
def _packer() -> Callable[[Any], bytes]:
    """Packs what was unpacked, to see whether the same comes out: then no key of a map was there twice.

    That takes less than half of what a function in Python takes that sees each map. There is one for all threads: it calls
    nothing in Python, so none of them gets in between.
    """
    pack: Callable[[Any], bytes] = Packer().pack
    return pack


def _may_be_odd(body: bytes, notable: bytes) -> bool:
    """Whether some byte could stand for bytes, or for a number that is not finite."""
    others = notable.translate(None, CONTAINERS)
    return bool(others) and (
        bool(others.translate(None, FLOATS)) or bool(ODD_DOUBLE.search(body) or ODD_SINGLE.search(body))
    )


def _check_levels(value: Any, limits: Limits) -> None:
    """Looks at depth, keys and numbers; reached when some byte could stand for what is not accepted."""
    depth = 0
    level = [value]
    while level:
        depth += any(type(item) is dict or type(item) is list for item in level)
        # guard: depth is limited
        if depth > limits.max_depth:
            raise DecodeError(f"the body is nested deeper than {limits.max_depth}")
        below: list[Any] = []
        for item in level:
            if type(item) is dict:
                _check_keys(item)
                below += item.values()
            elif type(item) is list:
                below += item
            elif type(item) is float and not limits.allow_nan and not isfinite(item):
                raise DecodeError(f"{item} is not accepted as a number")
        level = below


def _check_keys(item: dict[Any, Any]) -> None:
    if bytes in map(type, item):
        raise DecodeError("a map key is not text")


def _map_of(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise DecodeError("a map has the same key twice")
    return made


def _refuse_extension(code: int, data: bytes) -> NoReturn:
    raise DecodeError(f"extension types are not accepted (type {code})")
