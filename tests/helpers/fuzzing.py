"""Gives bytes to everything that reads bytes of others, and says what must be true whatever they are.

Used by hypothesis in the tests and by atheris in `scripts/proof --fuzz`.
"""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from collections.abc import Callable
from typing import Any, Final

from pydantic import BaseModel, Field

from callboard.broker import MessageRegistry
from callboard.broker.codec import packb
from callboard.broker.envelope import FIELDS, Envelope, decode, encode
from callboard.broker.errors import BrokerError, DecodeError
from callboard.broker.limits import DEFAULT, Limits, is_json, unpack, walk
from callboard.broker.remote_errors import decode_error

SMALL_LIMITS: Final = Limits(max_bytes=4_096, max_depth=4, max_elements=50)
# What decoding may reserve at its peak: a constant for headers that promise more than there is (limits.py), and a
# number of bytes for each that came. An empty map takes one byte and becomes an object of 64, a long key is kept twice.
CONSTANT_BYTES: Final = 40_000_000
BYTES_PER_BYTE: Final = 200


class Colour(enum.Enum):
    """One of few."""

    RED = "red"
    BLUE = "blue"


class Part(BaseModel):
    """Something nested."""

    name: str
    weight: float = 0.0
    below: list[Part] = Field(default_factory=list)


class Whole(BaseModel):
    """Fields of many kinds."""

    number: int
    text: str = ""
    raw: bytes = b""
    when: dt.datetime | None = None
    colour: Colour = Colour.RED
    token: uuid.UUID | None = None
    parts: dict[str, Part] = Field(default_factory=dict)
    either: int | str | Part = 0
    anything: Any = None


REGISTRY: Final = MessageRegistry()
REGISTRY.register(Whole, Part)


def written(envelope: Envelope) -> list[bytes]:
    """The seven values of its entry, as the scripts write them."""
    name, kind, key, sender, head, body = encode(envelope)
    return [name.encode(), kind.encode(), key.encode(), sender.encode(), b"%d" % envelope.at, head, body]


def read_body(data: bytes) -> None:
    """Plain data within the limits; what was read can be written and read again."""
    value = unpack(data)
    check_within(value, DEFAULT)
    assert unpack(data, is_nested=True) == value
    if not is_json(data):
        walk(data, DEFAULT.max_depth, DEFAULT.max_elements, False)
    assert unpack(packb(value)) == value


def read_small(data: bytes) -> None:
    """With limits that are reached soon."""
    value = unpack(data, SMALL_LIMITS)
    check_within(value, SMALL_LIMITS)
    assert len(data) <= SMALL_LIMITS.max_bytes


def read_with_nan(data: bytes) -> None:
    """Where NaN is allowed."""
    unpack(data, DEFAULT.with_nan())


def read_head(data: bytes) -> None:
    """An envelope with this head; what was read can be written and read again."""
    values = [b"id", b"Whole", b"key", b"a/b", b"1", data, b""]
    envelope = decode(values)
    assert decode(written(envelope)) == envelope


def read_values(data: bytes) -> None:
    """An envelope whose values are these bytes, cut at every 0xff."""
    parts = data.split(b"\xff", len(FIELDS) - 1)
    envelope = decode([*parts, *[b""] * (len(FIELDS) - len(parts))])
    assert decode(written(envelope)) == envelope


def read_message(data: bytes) -> None:
    """Values of classes, and what can be written of them."""
    for name in ("Whole", "Part"):
        try:
            message = REGISTRY.decode(name, 1, data)
        except DecodeError:
            continue
        assert REGISTRY.name_of(type(message)) == name


def read_error(data: bytes) -> None:
    """An error of somewhere else. Nothing at all is raised."""
    try:
        error = decode_error(data)
        assert isinstance(error, BaseException)
        str(error)
    except BrokerError as wrong:
        raise AssertionError("decode_error raised") from wrong


TARGETS: Final[tuple[Callable[[bytes], None], ...]] = (
    read_body,
    read_small,
    read_with_nan,
    read_head,
    read_values,
    read_message,
    read_error,
)


def read(target: Callable[[bytes], None], data: bytes) -> None:
    """Reads; a DecodeError with a reason is as good as a value, and nothing else may be raised."""
    try:
        target(data)
    except DecodeError as error:
        assert error.reason  # noqa: PT017


def check_within(value: Any, limits: Limits) -> None:
    """What was read keeps to the limits, seen independently of how they are enforced."""
    level, depth, elements = [value], -1, 0
    while level:
        depth += 1
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                assert all(type(key) is str for key in item)
                below += item.values()
            elif isinstance(item, list):
                below += item
            else:
                assert item is None or type(item) in (bool, int, float, str, bytes)
        elements += len(below)
        level = below
    assert depth <= limits.max_depth + 1
    assert elements <= limits.max_elements
