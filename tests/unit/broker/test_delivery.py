from __future__ import annotations

import pytest

from tests.helpers.lanes import entry


@pytest.mark.parametrize(
    ("tries", "attempt", "first_tried"),
    [
        (b"", 1, ""),
        (b"1 1763700000000 ValueError: no", 2, "1763700000000"),
        (b"2 1763700000000 its worker died", 3, "1763700000000"),
        (b"7 1763700000000 ", 8, "1763700000000"),
    ],
)
def test_attempts(tries: bytes, attempt: int, first_tried: str) -> None:
    delivery = entry("a", "a1", tries=tries)
    assert delivery.attempt == attempt
    assert delivery.first_tried == first_tried


def test_a_reference_tells_entries_apart() -> None:
    first, second = entry("a", "a1"), entry("a", "a1")
    assert first.reference == (b"counter", b"topic:visits", first.entry)
    assert first.reference != second.reference


def test_a_new_delivery_knows_no_state() -> None:
    delivery = entry("a", "a1")
    assert (delivery.state, delivery.state_version, delivery.state_unknown) == (None, 0, False)
    assert delivery.mailbox is None


def test_it_has_no_room_for_anything_else() -> None:
    with pytest.raises(AttributeError):
        entry("a", "a1").typo = 1  # type: ignore[attr-defined]
