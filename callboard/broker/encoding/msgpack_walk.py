"""Goes through msgpack without making its values: checks depth, number of values, keys, types and numbers."""

from __future__ import annotations

import re
import struct
from math import isfinite
from typing import Final

from callboard.broker.errors import DecodeError

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
FLOATS: Final = {0xCA: (5, ">f"), 0xCB: (9, ">d")}
# Long lists of numbers are what large bodies are made of: a run of them is passed in one step.
RUN: Final = re.compile(rb"(?s:[\x00-\x7f\xe0-\xff]+|(?:\xcb(?![\x7f\xff][\xf0-\xff]).{8})+)")

# Where a NaN or infinity may be; a string may hold the same bytes. Two patterns, because one byte in front of a
# pattern is found by memchr and a choice of two is not.
ODD_DOUBLE: Final = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
ODD_SINGLE: Final = re.compile(rb"\xca[\x7f\xff][\x80-\xff]")


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
        elif first in FLOATS:
            self._float(*FLOATS[first])
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
