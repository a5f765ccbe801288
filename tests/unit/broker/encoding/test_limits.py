import math
import random
import struct
import time
import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import example, given, strategies as st

from callboard.broker import BrokerSettings
from callboard.broker.errors import DecodeError
from callboard.broker.limits import DEFAULT, Limits, is_json, unpack, walk

pack = msgpack.packb
MANY = (10**6).to_bytes(4, "big")

JUNK: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the body is empty"),
    "words": (b"hello", "broken JSON"),
    "reserved byte": (b"\xc1", "broken msgpack"),
    "cut off": (pack({"a": "long enough"})[:-3], "broken msgpack"),
    "something behind": (pack({"a": 1}) + b"\x00", "broken msgpack"),
    "key twice": (b"\x82\xa1a\x01\xa1a\x02", "the same key twice"),
    "key twice below": (b"\x91\x82\xa1a\x01\xa1a\x02", "the same key twice"),
    "key twice in json": (b'{"a":1,"b":{"c":1,"c":2}}', "the same key twice"),
    "key twice by another spelling": (b'{"a":1,"\\u0061":2}', "the same key twice"),
    "bytes as key": (b"\x81\xc4\x01a\x01", "a map key is not text"),
    "bytes as key below": (b"\x81\xa1a\x81\xc4\x01a\x01", "a map key is not text"),
    "number as key": (b"\x81\x01\x01", "int is not allowed for map key"),
    "map as key": (b"\x81\x80\x01", "broken msgpack"),
    "nan": (pack({"a": math.nan}), "nan is not accepted"),
    "nan alone": (pack(math.nan), "nan is not accepted"),
    "infinity": (pack([[math.inf]]), "inf is not accepted"),
    "short infinity": (b"\x91\xca\xff\x80\x00\x00", "-inf is not accepted"),
    "infinity in json": (b'{"a":1e999}', "inf is not accepted"),
    "nan in json": (b'{"a":NaN}', "broken JSON"),
    "2^70": (b'{"a":%d}' % 2**70, "does not fit into 64 bits"),
    "endless number": (b'{"a":' + b"9" * 100_000 + b"}", "broken JSON"),
    "broken utf-8": (b"\x81\xa1a\xa1\xff", "broken msgpack"),
    "lone surrogate": (b"\x81\xa1a\xa3\xed\xa0\x80", "broken msgpack"),
    "lone surrogate in json": (b'{"a":"\\ud800"}', "broken JSON"),
    "extension": (b"\x81\xa1a\xd4\x7f\x00", "exceeds max_ext_len"),
    "empty extension": (b"\x81\xa1a\xc7\x00\x7f", "extension types are not accepted"),
    "timestamp": (pack({"a": msgpack.Timestamp(1)}), "exceeds max_ext_len"),
    "33 levels": (b"\x91" * 33 + b"\x01", "deeper than 32"),
    "33 levels of maps": (b"\x81\xa1a" * 33 + b"\x01", "deeper than 32"),
    "1,025 levels": (b"\x91" * 1025 + b"\x01", "broken msgpack"),
    "a million levels": (b"\x91" * 1_000_000 + b"\x01", "deeper than 32"),
    "33 levels of json": (b"[" * 33 + b"]" * 33, "deeper than 32"),
    "many levels of json": (b"[" * 500_000, "more than 100,000 values"),
    "a million maps": (b"\xdd" + MANY + b"\x80" * 10**6, "more than 100,000 values"),
    "a million numbers": (b"\xdd" + MANY + b"\x01" * 10**6, "more than 100,000 values"),
    "100,001 values below": (pack([[0] * 50_000, ["x"] * 50_000]), "more than 100,000 values"),
    "json with many maps": (b"[" + b"{}," * 300_000 + b"{}]", "more than 100,000 values"),
    "headers that lie": (b"\xdd\x00\x0f\xff\xff" * 200_000, "more than 100,000 values"),
    "small headers that lie": (b"\xdd\x00\x00\x0f\xff" * 800, "broken msgpack"),
    "headers that lie a little": (b"\xdd\x00\x01\x86\x9f" * 19_000, "more than 100,000 values"),
    "too long": (b"\xc4" * 1_048_577, "the body has 1,048,577 bytes, the limit is 1,048,576"),
}


@pytest.mark.parametrize(("body", "why"), JUNK.values(), ids=JUNK.keys())
def test_junk_is_refused_with_a_reason_and_little_memory(body: bytes, why: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match=why):
            unpack(body)
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        "",
        0,
        None,
        {"a": 1},
        {str(number): number for number in range(20)},
        {"a": {"b": [{"c": 1.5}] * 20}},
        ["x"] * 99_999,
        {"text": "\u0700\u4e00é" * 2_000, "raw": bytes(range(256)) * 40},
        [struct.unpack(">d", bytes([0x3F, *([0xCB, 0x7F, 0xF8] * 3)[:7]]))[0]],
    ],
    ids=lambda value: f"{type(value).__name__}-{len(pack(value))}",
)
def test_what_is_within_the_limits_is_read(value: Any) -> None:
    limits = Limits(max_elements=200_000)
    assert unpack(pack(value), limits) == value
    assert unpack(pack(value), limits, is_nested=True) == value


def test_a_map_of_many_values_is_read() -> None:
    value = {str(number): [number] for number in range(70_000)}
    assert unpack(pack(value), Limits(max_elements=200_000)) == value


def test_the_deepest_that_is_accepted() -> None:
    assert unpack(b"\x91" * 32 + b"\x01")
    assert unpack(b"\x81\xa1a" * 32 + b"\x01")
    assert unpack(b"[" * 32 + b"]" * 32)


def test_nan_where_it_is_allowed() -> None:
    limits = DEFAULT.with_nan()
    assert math.isnan(unpack(pack({"a": math.nan}), limits)["a"])
    assert unpack(pack([[math.inf]]), limits) == [[math.inf]]
    assert unpack(b"[-Infinity]", limits) == [-math.inf]
    assert limits.max_bytes == DEFAULT.max_bytes


def test_limits_come_from_the_settings() -> None:
    limits = Limits.of(BrokerSettings(max_payload=100, max_depth=2, max_elements=5))
    assert limits == Limits(100, 2, 5)
    for body in (pack([[[]]]), b"[[[]]]", pack([0] * 6), b"[1,2,3,4,5,6]", pack("x" * 100)):
        with pytest.raises(DecodeError):
            unpack(body, limits)


def test_json_is_what_no_msgpack_can_be() -> None:
    assert unpack(b'{"a": [1, "b:c", {"d": "\\"e\\": 1, {["}]}') == {"a": [1, "b:c", {"d": '"e": 1, {['}]}
    assert unpack(b' {"a": null}\n') == {"a": None}
    assert unpack(b'"text"') == "text"
    assert unpack(b"12") == 12
    assert unpack(b"5") == 53  # a single byte is msgpack
    assert is_json(b"{}")
    assert not is_json(b"{")


@pytest.mark.parametrize("kind", ["floats", "texts", "small numbers", "large numbers"])
def test_long_lists_are_read_fast(kind: str) -> None:
    numbers = random.Random(1)
    values: dict[str, list[Any]] = {
        "floats": [numbers.random() for _ in range(90_000)],
        "texts": ["abc"] * 90_000,
        "small numbers": [numbers.randrange(100) for _ in range(99_000)],
        "large numbers": [numbers.randrange(2**40) for _ in range(90_000)],
    }
    value = values[kind]
    body = pack(value)
    started = time.process_time()
    assert unpack(body) == value
    assert time.process_time() - started < 2  # 0.1 s here; a slow walk blocks the worker's loop


BODIES = st.one_of(
    st.binary(max_size=200),
    st.lists(
        st.sampled_from([b"\x91", b"\x81\xa1a", b"\xdc\x00\x02", b"\xc0", b"\xcb" + b"\x7f" * 8]), max_size=60
    ).map(b"".join),
    st.text(alphabet='{}[]",:\\1eN a', max_size=100).map(str.encode),
)


@given(BODIES, st.booleans())
@example(b"\x81\xa1a\xca\x7f\x80\x00\x00", False)
def test_nothing_but_a_decode_error_is_ever_raised(body: bytes, is_nested: bool) -> None:
    try:
        value = unpack(body, is_nested=is_nested)
    except DecodeError as error:
        assert error.reason  # noqa: PT017
        return
    assert unpack(body, is_nested=not is_nested) == value


@given(BODIES)
def test_the_walk_and_the_decoder_agree(body: bytes) -> None:
    if not body or is_json(body):
        return
    assert _walks(body) == _unpacks(body)


def _walks(body: bytes) -> bool:
    try:
        walk(body, 32, 100_000, False)
        msgpack.unpackb(body)  # text that is not UTF-8 is the decoder's to find
    except (DecodeError, ValueError):
        return False
    return True


def _unpacks(body: bytes) -> bool:
    try:
        unpack(body)
    except DecodeError:
        return False
    return True
