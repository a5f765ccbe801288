from typing import Any

import msgpack
import pytest
from hypothesis import given, strategies as st

from callboard.broker.errors import DecodeError
from callboard.broker.limits import walk

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
    | st.binary(max_size=300),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=40), inner, max_size=20),
    max_leaves=50,
)


@given(VALUES, st.booleans())
def test_what_msgpack_writes_is_passed(value: Any, single: bool) -> None:
    try:
        body = msgpack.packb(value, use_single_float=single)
    except (OverflowError, UnicodeEncodeError):
        return
    walk(body, 64, 100_000, allow_nan=True)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "ends too early"),
        (b"\xd9", "ends too early"),
        (b"\xcb\x00", "ends too early"),
        (b"\x92\x01", "ends too early"),
        (b"\xdd\x00\x00", "ends too early"),
        (b"\x81\x01\x01", "a map key is not text"),
        (b"\x82\xd9\x01a\x01\xa1a\x01", "the same key twice"),
        (b"\x01\x01", "bytes behind the value"),
        (b"\xc1", "byte 0xc1"),
        (b"\xd6\xff\x00\x00\x00\x00", "extension types are not accepted"),
        (b"\x92\xcb\x3f" + b"\x00" * 7 + b"\xcb\x7f\xf0" + b"\x00" * 6, "inf is not accepted"),
        (b"\x91\x91\x91\xc0", "nested deeper than 2"),
        (b"\x9f" + b"\xc0" * 15, "more than 10 values"),
    ],
)
def test_what_is_wrong_is_said(body: bytes, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        walk(body, 2, 10, allow_nan=False)


def test_a_run_of_numbers_does_not_reach_over_the_end_of_its_list() -> None:
    walk(msgpack.packb([[1, 2], 3, [1.5, 2.5], 3.5]), 2, 10, allow_nan=False)
    with pytest.raises(DecodeError, match="bytes behind the value"):
        walk(b"\x92\x01\x02\x03", 2, 10, allow_nan=False)
