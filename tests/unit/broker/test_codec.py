import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.codec import (
    FIELDS,
    SHORT,
    event_head,
    from_values,
    head_of,
    head_of_reply,
    request_head,
    to_values,
)
from broker.envelope import Envelope
from broker.errors import DecodeError, EncodeError
from broker.limits import Limits

PLAIN = Envelope("m1", "Task", "k1", "writer/k", 1_763_700_000_000, b"\x80")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
TIMES = st.integers(0, 2**63)
ENVELOPES = st.builds(
    Envelope,
    id=TEXTS,
    type=TEXTS,
    key=TEXTS,
    sender=st.none() | TEXTS.map(lambda key: f"a/{key}"),
    at=TIMES,
    body=st.binary(max_size=20),
    kind=st.sampled_from(["event", "request", "reply", "control"]),
    topic=st.none() | TEXTS,
    reply_to=st.none() | TEXTS,
    recorded=st.booleans(),
    cause=st.none() | TEXTS,
    chain=st.lists(TEXTS, max_size=3).map(tuple),
    deadline=st.none() | TIMES,
    version=st.integers(1, 1_000),
    trace=st.none() | st.dictionaries(TEXTS, TEXTS, max_size=3),
    error=st.booleans(),
    claimed=st.booleans(),
    routes=st.none() | st.dictionaries(TEXTS, st.tuples(TEXTS, TEXTS), max_size=3),
)


@given(ENVELOPES)
def test_envelopes_come_back(envelope: Envelope) -> None:
    values = to_values(envelope)
    assert len(values) == len(FIELDS)
    assert all(type(value) is bytes for value in values)
    assert from_values(values) == envelope


def test_the_plain_fields_are_for_people_and_the_head_is_empty() -> None:
    assert to_values(PLAIN) == [b"m1", b"Task", b"k1", b"writer/k", b"1763700000000", b"", b"\x80"]
    assert to_values(PLAIN._replace(sender=None))[3] == b""


def test_the_head_holds_only_what_is_not_the_default() -> None:
    head = head_of(PLAIN._replace(kind="request", deadline=5, chain=("a/b",)))
    assert msgpack.unpackb(head) == {"k": "request", "d": 5, "h": ["a/b"]}


def test_every_field_behind_the_body_has_a_short_name() -> None:
    behind = Envelope._fields[Envelope._fields.index("body") + 1 :]
    assert set(behind) == set(SHORT)
    assert len(set(SHORT.values())) == len(SHORT)


def test_the_short_ways_to_a_head_make_the_same() -> None:
    request = PLAIN._replace(
        kind="request", reply_to="h:1", deadline=7, chain=("a/b",), recorded=True, version=2
    )
    assert _read(request_head("h:1", 7, ("a/b",), recorded=True, version=2)) == _read(head_of(request))
    claimed = PLAIN._replace(kind="request", reply_to="h:1", claimed=True)
    assert _read(request_head("h:1", None, claimed=True)) == _read(head_of(claimed))
    assert _read(request_head("h:1", None)) == _read(head_of(PLAIN._replace(kind="request", reply_to="h:1")))
    assert event_head(2, "m0") == head_of(PLAIN._replace(cause="m0", version=2))
    assert event_head() == b""
    assert event_head(claimed=True) == head_of(PLAIN._replace(claimed=True))
    assert head_of_reply(3, error=False) == head_of(PLAIN._replace(version=3))
    assert head_of_reply(1, error=True) == head_of(PLAIN._replace(error=True))
    assert head_of_reply(1, error=False) == b""
    assert _read(head_of_reply(3, error=False, claimed=True)) == _read(
        head_of(PLAIN._replace(version=3, claimed=True))
    )


def _read(head: bytes) -> Envelope:
    return from_values([b"", b"", b"", b"", b"0", head, b""])


def test_an_entry_added_by_hand_has_little() -> None:
    envelope = from_values([b"1763700000000-0", b"Task", b"k1", b"", b"1763700000000", b"", b"{}"])
    assert envelope == Envelope("1763700000000-0", "Task", "k1", None, 1_763_700_000_000, b"{}")


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        (0, b"\xff", "not UTF-8"),
        (1, b"\xff", "not UTF-8"),
        (2, b"\xed\xa0\x80", "not UTF-8"),
        (3, b"nobody", "the field `from`"),
        (3, b"\xff/a", "not UTF-8"),
        (4, b"", "the field `at`"),
        (4, b"soon", "the field `at`"),
        (4, b"9" * 10_000, "the field `at`"),
        (5, b"\xc1", "broken msgpack"),
        (5, b"\x01", "the head is not a map"),
        (5, b"[]", "the head is not a map"),
    ],
)
def test_broken_fields(place: int, value: bytes, why: str) -> None:
    values = to_values(PLAIN)
    values[place] = value
    with pytest.raises(DecodeError, match=why):
        from_values(values)


@pytest.mark.parametrize(
    ("short", "value", "wanted"),
    [
        ("k", "order", "one of control, event, reply, request"),
        ("k", 1, "one of"),
        ("t", 1, "text"),
        ("r", ["x"], "text"),
        ("j", 1, "true or false"),
        ("c", b"x", "text"),
        ("h", "a/b", "a list of texts"),
        ("h", [1], "a list of texts"),
        ("d", "soon", "a number of milliseconds"),
        ("d", True, "a number of milliseconds"),
        ("d", -1, "a number of milliseconds"),
        ("v", 0, "a whole number, at least 1"),
        ("v", 1.5, "a whole number, at least 1"),
        ("x", [], "a map of texts"),
        ("x", {"a": 1}, "a map of texts"),
        ("e", "no", "true or false"),
    ],
)
def test_broken_heads(short: str, value: object, wanted: str) -> None:
    with pytest.raises(DecodeError, match=f"the field `{short}` of the head has to be {wanted}"):
        _read(msgpack.packb({short: value}))


def test_what_a_later_version_adds_to_the_head_is_passed_over() -> None:
    assert _read(msgpack.packb({"new": 1, "c": "m0"})).cause == "m0"


def test_the_head_has_limits_too() -> None:
    with pytest.raises(DecodeError, match="the limit is 5"):
        from_values([b"", b"", b"", b"", b"0", b"\x80" * 6, b""], Limits(max_bytes=5))


def test_half_a_surrogate_pair_is_not_written() -> None:
    with pytest.raises(EncodeError, match="half of a surrogate pair"):
        to_values(PLAIN._replace(key="\ud800"))


@given(st.lists(st.binary(max_size=20), min_size=7, max_size=7))
def test_nothing_but_a_decode_error_is_ever_raised(values: list[bytes]) -> None:
    try:
        from_values(values)
    except DecodeError as error:
        assert error.reason  # noqa: PT017
