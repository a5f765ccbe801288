"""The output that is kept."""

from __future__ import annotations

import tracemalloc

from hypothesis import given, strategies as st

from callboard.code.process import KeptOutput


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=20), st.integers(2, 60))
def test_head_and_tail_are_kept_however_it_comes(pieces: list[bytes], kept: int) -> None:
    output, whole, half = KeptOutput(kept), b"".join(pieces), kept // 2
    for piece in pieces:
        output.add(piece)
    assert output.size == len(whole)
    if len(whole) <= 2 * half:
        expected = whole.decode("utf-8", "replace")
    else:
        left_out = len(whole) - 2 * half
        head, tail = (part.decode("utf-8", "replace") for part in (whole[:half], whole[-half:]))
        expected = f"{head}\n[... {left_out} bytes of output left out ...]\n{tail}"
    assert output.text() == expected.replace("\0", "\ufffd")


def test_no_more_is_held_than_is_kept() -> None:
    output, piece = KeptOutput(1000), bytearray(b"x" * 100)
    tracemalloc.start()
    try:
        for _ in range(10_000):
            output.add(bytes(piece))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 10_000


def test_a_character_that_comes_in_two_pieces_is_whole() -> None:
    output = KeptOutput(100)
    for piece in (b"\xc3", b"\xa9"):
        output.add(piece)
    assert output.text() == "é"
