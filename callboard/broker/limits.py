"""Limits of data from any source, in msgpack and JSON: what is too large or too deep is refused unread.

A small body can't do harm in the C decoder (its own stack ends at 1,024 levels, and a header that promises
more than the body holds reserves memory in proportion to it), so it is decoded first and looked at after.
A large one is walked through before anything is made of it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import cache, lru_cache
from math import isfinite
from typing import Any, Final, NamedTuple, NoReturn

from msgpack import Packer, unpackb
from pydantic_core import from_json as parse

from .errors import DecodeError
from .settings import DEFAULTS, BrokerSettings

SMALL: Final = 4_096  # bytes; the 819 nested array headers that fit in reserve at most 27 MB
RESERVED: Final = 4_000_000  # slots of 8 bytes that headers of a larger body may ask for without a walk
LONG_HEADERS: Final = bytes([0xDC, 0xDD, 0xDE, 0xDF])  # array16, array32, map16, map32
CONTAINERS: Final = bytes([*range(0x80, 0xA0)]) + LONG_HEADERS
FLAT: Final = 2  # containers within containers of a map with lists of plain values
FLOATS: Final = bytes([0xCA, 0xCB])
BYTES: Final = bytes([0xC4, 0xC5, 0xC6])  # of one, two or four bytes' length
ORDINARY: Final = bytes(sorted({*range(256)} - {*CONTAINERS, *FLOATS, *BYTES}))
"""Headers of values that neither open a container nor have to be looked at."""


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


# msgpack


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


# Where a NaN or infinity may be; a string may hold the same bytes. Two patterns, because one byte in front of a
# pattern is found by memchr and a choice of two is not.
ODD_DOUBLE: Final = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
ODD_SINGLE: Final = re.compile(rb"\xca[\x7f\xff][\x80-\xff]")


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


# A walk through a large body

# What follows the first byte: how many bytes in all for a value of fixed size; 0 for the others.
FIXED: Final = tuple(
    1
    if first <= 0x7F or first >= 0xE0 or first in (0xC0, 0xC2, 0xC3)
    else 1 + (first & 0x1F)
    if 0xA0 <= first <= 0xBF
    else 1 + (1 << ((first - 0xCC) % 4))
    if 0xCC <= first <= 0xD3
    else 0
    for first in range(256)
)
# First byte of strings and binaries -> how many bytes hold their length.
SIZED: Final = {0xD9: 1, 0xDA: 2, 0xDB: 4, 0xC4: 1, 0xC5: 2, 0xC6: 4}
FLOAT_HEADERS: Final = {0xCA: (5, ">f"), 0xCB: (9, ">d")}
# Long lists of numbers are what large bodies are made of: a run of them is passed in one step.
RUN: Final = re.compile(rb"(?s:[\x00-\x7f\xe0-\xff]+|(?:\xcb(?![\x7f\xff][\xf0-\xff]).{8})+)")


class Walk:
    """One body that is gone through; see `walk`."""

    __slots__ = ("_allow_nan", "_at", "_body", "_elements", "_max_depth", "_max_elements", "_open", "_size")

    def __init__(self, body: bytes, max_depth: int, max_elements: int, allow_nan: bool) -> None:
        self._body = body
        self._size = len(body)
        self._max_depth = max_depth
        self._max_elements = max_elements
        self._allow_nan = allow_nan
        self._at = 0
        self._elements = 0
        self._open: list[tuple[int, set[bytes] | None]] = []

    def run(self) -> None:
        """Raises DecodeError when something is wrong."""
        # For each open container: the values still to come, and for a map the keys so far.
        left, keys = 1, None
        while True:
            if left == 0:
                if not self._open:
                    break
                left, keys = self._open.pop()
                continue
            left -= 1
            if keys is not None:
                self._key(keys)
            opened = self._value()
            if opened is not None:
                self._open.append((left, keys))
                left, keys = opened
                self._count(left)
            elif keys is None and left:
                left -= self._run_of_numbers(left)
        if self._at != self._size:
            raise DecodeError("there are bytes behind the value")

    def _count(self, values: int) -> None:
        if len(self._open) > self._max_depth:
            raise DecodeError(f"the body is nested deeper than {self._max_depth}")
        self._elements += values
        if self._elements > self._max_elements:
            raise DecodeError(f"the body holds more than {self._max_elements:,} values")

    def _value(self) -> tuple[int, set[bytes] | None] | None:
        """Passes one value; of a container only the header: how many values, and a set for a map's keys."""
        first = self._byte()
        size = FIXED[first]
        if size:
            self._skip(size - 1)
        elif first <= 0x8F or first >= 0xDE:
            return (first & 0x0F if first <= 0x8F else self._number(2 if first == 0xDE else 4)), set()
        elif first <= 0x9F or first >= 0xDC:
            return (first & 0x0F if first <= 0x9F else self._number(2 if first == 0xDC else 4)), None
        elif first in SIZED:
            self._skip(self._number(SIZED[first]))
        elif first in FLOAT_HEADERS:
            self._float(*FLOAT_HEADERS[first])
        else:
            raise DecodeError(f"extension types are not accepted (byte 0x{first:02x})")
        return None

    def _run_of_numbers(self, left: int) -> int:
        found = RUN.match(self._body, self._at)
        if found is None:
            return 0
        width = 9 if self._body[self._at] == 0xCB else 1
        count = min(left, (found.end() - self._at) // width)
        self._at += count * width
        return count

    def _key(self, seen: set[bytes]) -> None:
        first = self._byte()
        if 0xA0 <= first <= 0xBF:
            size = first & 0x1F
        elif 0xD9 <= first <= 0xDB:
            size = self._number(SIZED[first])
        else:
            raise DecodeError("a map key is not text")
        start = self._at
        self._skip(size)
        key = self._body[start : self._at]
        if key in seen:
            raise DecodeError("a map has the same key twice")
        seen.add(key)

    def _float(self, size: int, form: str) -> None:
        start = self._at
        self._skip(size - 1)
        (value,) = struct.unpack_from(form, self._body, start)
        if not self._allow_nan and not isfinite(value):
            raise DecodeError(f"{value} is not accepted as a number")

    def _byte(self) -> int:
        self._skip(1)
        return self._body[self._at - 1]

    def _number(self, size: int) -> int:
        self._skip(size)
        return int.from_bytes(self._body[self._at - size : self._at], "big")

    def _skip(self, size: int) -> None:
        self._at += size
        if self._at > self._size:
            raise DecodeError("broken msgpack: it ends too early")


def walk(body: bytes, max_depth: int, max_elements: int, allow_nan: bool) -> None:
    """Checks a body.

    Raises:
        DecodeError: it is no msgpack value, or nested too deep, holds too many values, a key twice, a key
            that is not text, an extension type, or a NaN or infinity that is not allowed.
    """
    Walk(body, max_depth, max_elements, allow_nan).run()


# JSON

# The quote at the end may be missing: else the search would begin anew at each escaped quote of a string that never ends.
STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
"""A string of JSON, also one that never ends."""


def from_json(body: bytes, max_depth: int, max_elements: int, allow_nan: bool) -> Any:
    """Decodes JSON.

    Raises:
        DecodeError: it is no JSON, nested too deep, holds too many values, a key twice, a whole number beyond
            64 bits, or a NaN or infinity that is not allowed.
    """
    bare = STRING.sub(b"", body)
    if bare.count(b",") + bare.count(b"[") + bare.count(b"{") > max_elements:
        raise DecodeError(f"the body holds more than {max_elements:,} values")
    try:
        value = parse(body, allow_inf_nan=allow_nan)
    except (ValueError, RecursionError, MemoryError) as error:
        raise DecodeError(f"broken JSON: {error}") from error
    if _check_json([value], max_depth, allow_nan) != bare.count(b":"):
        raise DecodeError("an object has the same key twice")
    return value


def _check_json(level: list[Any], max_depth: int, allow_nan: bool) -> int:
    """Looks at every value, level by level; returns the number of keys."""
    keys = depth = 0
    while level:
        below: list[Any] = []
        for item in level:
            if type(item) is dict:
                keys += len(item)
                below += item.values()
            elif type(item) is list:
                below += item
            else:
                _check_json_scalar(item, allow_nan)
        depth += any(type(item) is dict or type(item) is list for item in level)
        if depth > max_depth:
            raise DecodeError(f"the body is nested deeper than {max_depth}")
        level = below
    return keys


def _check_json_scalar(item: Any, allow_nan: bool) -> None:
    if type(item) is int and not -(2**63) <= item < 2**64:
        raise DecodeError("a whole number does not fit into 64 bits")
    if type(item) is float and not allow_nan and not isfinite(item):
        raise DecodeError(f"{item} is not accepted as a number")
