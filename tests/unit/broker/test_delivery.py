from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from callboard.broker.envelope import MOST_SHARED, Envelope, read_deliveries, read_delivery
from tests.helpers.lanes import entry


@pytest.mark.parametrize(
    ("tries", "attempt", "first_tried"),
    [
        (b"", 1, ""),
        (b"1 1763700000000 0 ValueError: no", 2, "1763700000000"),
        (b"0 1763700000000 2 a worker that held it died", 1, "1763700000000"),
        (b"2 1763700000000 2 its worker died", 3, "1763700000000"),
        (b"7 1763700000000 0 ", 8, "1763700000000"),
        (b"+1 1763700000000 0 ValueError: no", 2, "1763700000000"),
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


VALUES = (b"counter", b"topic:visits", b"17-0", b"", b"m1", b"Visit", b"a", b"", b"5", b"", b"{}")


def test_it_is_read_from_what_the_server_gives() -> None:
    delivery = read_delivery(VALUES)
    assert delivery.reference == (b"counter", b"topic:visits", b"17-0")
    assert (delivery.raw_key, delivery.tries, delivery.broken) == (b"a", b"", None)
    assert delivery.envelope == Envelope("m1", "Visit", "a", None, 5, b"{}")


def test_an_entry_added_by_hand_has_an_id_of_its_own_and_the_time_of_its_entry() -> None:
    """The entry's id alone may stand in another stream as well."""
    envelope = read_delivery((*VALUES[:4], b"", b"Visit", b"a", b"", b"", b"", b"{}")).envelope
    assert (envelope.id, envelope.at) == (f"{VALUES[1].decode()}:17-0", 17)


def test_junk_is_a_delivery_too() -> None:
    delivery = read_delivery((*VALUES[:6], b"\xff", b"", b"5", b"\xc1", b"{}"))
    assert delivery.broken is not None
    assert (delivery.raw_key, delivery.envelope.key, delivery.envelope.id) == (b"\xff", "\ufffd", "m1")


@given(st.lists(st.binary(max_size=20), min_size=7, max_size=7))
def test_reading_never_fails(values: list[bytes]) -> None:
    delivery = read_delivery((*VALUES[:4], *values))
    assert delivery.envelope.body == values[-1]


def for_type(agent_type: bytes, *fields: bytes) -> tuple[bytes, ...]:
    return (agent_type, *VALUES[1:4], *(fields or VALUES[4:]))


def test_what_two_types_get_of_one_message_is_read_once() -> None:
    found = [for_type(b"counter"), (*for_type(b"clerk")[:3], b"1 5 0 no", *VALUES[4:])]
    first, second = read_deliveries(found, worker="w")
    assert first.envelope is second.envelope
    assert first.shared is not None
    assert first.shared is second.shared
    assert first.shared.readers == 2
    assert (second.raw_type, second.attempt, second.raw_key, second.worker) == (b"clerk", 2, b"a", "w")


@pytest.mark.parametrize(
    "other",
    [
        (*VALUES[4:-1], b"[]"),
        (*VALUES[4:6], b"b", *VALUES[7:]),
        (b"m2", *VALUES[5:]),
    ],
    ids=["another body", "another key", "another id"],
)
def test_what_is_not_the_same_message_is_read_apart(other: tuple[bytes, ...]) -> None:
    found = [for_type(b"counter"), for_type(b"clerk", *other)]
    assert [one.envelope for one in read_deliveries(found)] == [
        read_delivery(for_type(b"counter")).envelope,
        read_delivery(for_type(b"clerk", *other)).envelope,
    ]
    assert [one.shared for one in read_deliveries(found)] == [None, None]


def test_entries_without_an_id_are_not_taken_for_each_other() -> None:
    """What a person adds without one is known by its stream and place, which are not among its values."""
    nameless = (b"", *VALUES[5:])
    found = [for_type(b"counter", *nameless), (b"clerk", b"topic:others", b"18-0", b"", *nameless)]
    assert [one.envelope.id for one in read_deliveries(found)] == ["topic:visits:17-0", "topic:others:18-0"]


def test_a_broken_message_is_broken_for_each() -> None:
    broken = (*VALUES[4:8], b"no time", *VALUES[9:])
    first, second = read_deliveries([for_type(b"counter", *broken), for_type(b"clerk", *broken)])
    assert first.broken is not None
    assert second.broken is first.broken


def test_large_bodies_are_not_kept_for_others() -> None:
    large = (*VALUES[4:-1], bytes(MOST_SHARED + 1))
    found = [for_type(b"counter", *large), for_type(b"clerk", *large)]
    assert [one.shared for one in read_deliveries(found)] == [None, None]
