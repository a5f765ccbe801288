import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from callboard.broker.errors import DecodeError
from callboard.broker.limits import from_json

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=30,
)


@given(VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_json_is_read_as_everybody_reads_it(value: Any, ascii_only: bool, indent: int | None) -> None:
    body = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    assert from_json(body, 100, 100_000, allow_nan=False) == value


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{", "broken JSON"),
        (b'{"a":1}{', "broken JSON"),
        (b"[[[1]]]", "nested deeper than 2"),
        (b"[" + b"1," * 30 + b"1]", "more than 10 values"),
        (b'{"a":"x","a":"y"}', "the same key twice"),
        (b"[18446744073709551616]", "64 bits"),
        (b"[-9223372036854775809]", "64 bits"),
        (b"[-1e400]", "-inf is not accepted"),
    ],
)
def test_what_is_wrong_is_said(body: bytes, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        from_json(body, 2, 10, allow_nan=False)


def test_brackets_and_commas_in_texts_do_not_count() -> None:
    assert from_json(b'["[[[[,,,,,,,,,,,,,{{{{:\\"[[", 1]', 2, 10, allow_nan=False)[1] == 1


def test_a_string_that_never_ends_is_looked_through_once() -> None:
    # Each escaped quote was a beginning once: this took minutes.
    with pytest.raises(DecodeError, match="broken JSON"):
        from_json(b'{"text": "' + b'\\"' * 200_000, 32, 100_000, allow_nan=False)
