"""Whatever bytes others write: a value or a DecodeError, within a bound of memory. `scripts/proof --fuzz` goes on."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from callboard.broker.codec import packb
from callboard.broker.limits import Limits
from tests.helpers.fuzzing import (
    BYTES_PER_BYTE,
    CONSTANT_BYTES,
    REGISTRY,
    TARGETS,
    Part,
    Whole,
    check_within,
    read,
)

TARGET = st.sampled_from(TARGETS)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=20),
)
VALUES = st.recursive(
    SCALARS,
    lambda below: st.one_of(
        st.lists(below, max_size=6), st.dictionaries(st.text(max_size=8), below, max_size=6)
    ),
    max_leaves=25,
)
# Pieces that bodies are made of, put together without sense.
PIECES = st.sampled_from(
    [
        *(
            b"\x80",
            b"\x81",
            b"\x8f",
            b"\x90",
            b"\x91",
            b"\x9f",
            b"\xa0",
            b"\xa1a",
            b"\xc0",
            b"\xc1",
            b"\xc2",
            b"\xc3",
        ),
        *(b"\xc4\x01a", b"\xc7\x01\x01a", b"\xd4\x05a", b"\xd6\xff\0\0\0\0", b"\xd9\x01b", b"\xda\0\x01c"),
        *(b"\xca\x7f\xc0\0\0", b"\xcb\x7f\xf0\0\0\0\0\0\0", b"\xcf" + b"\xff" * 8, b"\xd3\x80" + b"\0" * 7),
        *(
            b"\xdc\0\x02",
            b"\xdc\xff\xff",
            b"\xdd\0\x01\x86\x9f",
            b"\xdd\xff\xff\xff\xff",
            b"\xde\0\x02",
            b"\xdf\0\0\0\x02",
        ),
        *(
            b'{"',
            b'"',
            b":",
            b",",
            b"[",
            b"]",
            b"{",
            b"}",
            b"1e999",
            b"NaN",
            b"\\ud800",
            b"-0",
            b"true",
            b" ",
        ),
        *(b"\xa4kind\xa5event", b"\xa1k\xa7request", b"\xa1h\x91\xa1x", b"\xa1d\x01", b"\xa1v\x01", b"\xff"),
    ]
)
JUNK = st.one_of(st.binary(max_size=300), st.lists(PIECES, max_size=60).map(b"".join))


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A valid body that was damaged in a few places."""
    value = draw(VALUES)
    whole = draw(st.sampled_from([packb, _as_json]))(value)
    body = bytearray(whole)
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(body)))
        how = draw(st.sampled_from(["flip", "drop", "insert", "repeat", "cut"]))
        _damage(body, place, how, draw(PIECES))
    return bytes(body)


def _as_json(value: Any) -> bytes:
    return json.dumps(value, default=lambda raw: raw.hex()).encode()


def _damage(body: bytearray, place: int, how: str, piece: bytes) -> None:
    if how == "insert":
        body[place:place] = piece
    elif how == "repeat":
        body[place:place] = body[place : place + 20] * 3
    elif how == "cut":
        del body[place:]
    elif place < len(body):
        body[place : place + 1] = bytes([body[place] ^ (1 << (len(piece) % 8))]) if how == "flip" else b""


@given(TARGET, JUNK)
def test_junk_is_refused_or_read(target: Callable[[bytes], None], data: bytes) -> None:
    read(target, data)


@given(TARGET, mutated())
@settings(max_examples=300)
def test_damaged_bodies_are_refused_or_read(target: Callable[[bytes], None], data: bytes) -> None:
    read(target, data)


DESCRIBED = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["ValueError", "UnicodeDecodeError", "UnicodeEncodeError", "OSError", "SyntaxError"]
        )
        | st.sampled_from(
            ["KeyError", "ExceptionGroup", "ImportError", "callboard.broker.errors.DecodeError"]
        )
        | st.text(max_size=20),
        "text": VALUES,
        "trace": st.text(max_size=20),
        "args": VALUES | st.lists(SCALARS, max_size=6),
        "fields": VALUES
        | st.dictionaries(st.sampled_from([*dir(OSError()), *dir(UnicodeError())]), SCALARS, max_size=3),
    }
)


@given(DESCRIBED)
@settings(max_examples=300)
def test_errors_that_anybody_described_are_errors(described: dict[str, Any]) -> None:
    read(TARGETS[-1], packb(described))


@given(VALUES)
def test_what_is_written_is_within_the_limits(value: Any) -> None:
    check_within(value, Limits())


def large(kind: str, size: int, chance: random.Random) -> bytes:
    """A body of about `size` bytes that costs the decoder as much as this kind can."""
    make: dict[str, Callable[[], bytes]] = {
        "empty maps": lambda: b"\xdd" + (size - 5).to_bytes(4, "big") + b"\x80" * (size - 5),
        "short keys": lambda: packb({f"{n:x}": n for n in range(size // 9)}),
        "lists that promise much": lambda: b"\xdd\x00\x01\x86\x9f" * (size // 5),
        "short lists that promise much": lambda: b"\xdc\xff\xff" * (size // 3),
        "a deep list": lambda: b"\x91" * size,
        "noise": lambda: chance.randbytes(size),
        "one text": lambda: packb("ä" * (size // 2)),
        "floats": lambda: packb([chance.random() for _ in range(size // 9)]),
        "json lists": lambda: b"[" + b"[]," * (size // 3) + b"1]",
        "json keys": lambda: json.dumps({f"{n:x}": 0 for n in range(size // 10)}).encode(),
        "json escapes": lambda: b'"' + b"\\u0061" * (size // 6) + b'"',
        "json digits": lambda: b"[" + b"1" * size + b"]",
    }
    return make[kind]()[:1_048_576]


KINDS = (
    *(
        "empty maps",
        "short keys",
        "lists that promise much",
        "short lists that promise much",
        "a deep list",
        "noise",
    ),
    *("one text", "floats", "json lists", "json keys", "json escapes", "json digits"),
)


@pytest.mark.parametrize(
    "size",
    [100, 4_000, 4_097, *(pytest.param(size, marks=pytest.mark.slow) for size in (60_000, 1_000_000))],
)
@pytest.mark.parametrize("kind", KINDS)
def test_memory_is_bounded_by_what_came(kind: str, size: int) -> None:
    body = large(kind, size, random.Random(f"{kind} {size}"))
    for target in TARGETS:
        tracemalloc.start()
        try:
            read(target, body)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < CONSTANT_BYTES + BYTES_PER_BYTE * len(body), (target.__name__, peak)


def test_what_is_whole_is_read() -> None:
    """The targets reach what they are made for: a valid message, head and error pass through all of it."""
    whole = Whole(number=1, parts={"a": Part(name="p", below=[Part(name="q")])}, anything=[1, {"x": None}])
    body = REGISTRY.entry_for(whole).encode(whole)
    for target in TARGETS:
        read(target, body)
    assert REGISTRY.decode("Whole", 1, body) == whole
