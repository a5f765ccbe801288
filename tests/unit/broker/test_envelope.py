import msgpack
import pytest
from hypothesis import given, strategies as st

from callboard.broker.envelope import (
    FIELDS,
    HEAD_FIELDS,
    Envelope,
    decode,
    encode,
    event,
    head_of,
    reply,
    request,
)
from callboard.broker.errors import DecodeError, EncodeError
from callboard.broker.limits import Limits
from callboard.broker.redis.client.wire import pack
from tests.helpers.fuzzing import written

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
    kind=st.sampled_from(["event", "request", "reply"]),
    topic=st.none() | TEXTS,
    reply_to=st.none() | TEXTS,
    recorded=st.booleans(),
    cause=st.none() | TEXTS,
    chain=st.lists(TEXTS, max_size=3).map(tuple),
    deadline=st.none() | TIMES,
    version=st.integers(1, 1_000),
    expires_in=st.none() | TIMES,
    cancellable=st.booleans(),
    error=st.booleans(),
    claimed=st.booleans(),
    routes=st.none() | st.dictionaries(TEXTS, st.tuples(TEXTS, TEXTS), max_size=3),
    run=st.none() | TEXTS,
    if_buried=st.booleans(),
)


@given(ENVELOPES)
def test_envelopes_come_back(envelope: Envelope) -> None:
    values = written(envelope)
    assert len(values) == len(FIELDS)
    assert all(type(value) is bytes for value in values)
    assert decode(values) == envelope


def test_the_plain_fields_are_for_people_and_the_head_is_empty() -> None:
    assert written(PLAIN) == [b"m1", b"Task", b"k1", b"writer/k", b"1763700000000", b"", b"\x80"]
    assert written(PLAIN._replace(sender=None))[3] == b""


def test_the_head_holds_only_what_is_not_the_default() -> None:
    head = head_of(PLAIN._replace(kind="request", deadline=5, chain=("a/b",)))
    assert msgpack.unpackb(head) == {"k": "request", "d": 5, "h": ["a/b"]}


def test_every_field_behind_the_body_has_a_short_name() -> None:
    behind = Envelope._fields[Envelope._fields.index("body") + 1 :]
    assert set(behind) == set(HEAD_FIELDS)
    assert len({short for short, _ in HEAD_FIELDS.values()}) == len(HEAD_FIELDS)


def test_what_is_made_to_be_sent_has_every_field() -> None:
    made = [
        event("m1", "Task", "k1", None, b""),
        request("m1", "Task", "k1", None, b"", "p1", False, (), 5, False, 1, False, None),
        reply("m1", "Task", "a/k1", b"", 1, False),
    ]
    assert [one.kind for one in made] == ["event", "request", "reply"]
    assert {len(one) for one in made} == {len(Envelope._fields)}


def test_what_needs_no_head_of_its_own_has_the_same_as_written_out() -> None:
    assert encode(PLAIN)[4] == b""
    assert encode(PLAIN._replace(kind="reply"))[4] == head_of(PLAIN._replace(kind="reply"))
    assert _read(encode(PLAIN._replace(kind="reply"))[4]).kind == "reply"


def _read(head: bytes) -> Envelope:
    return decode([b"", b"", b"", b"", b"0", head, b""])


def test_an_entry_added_by_hand_has_little() -> None:
    envelope = decode([b"1763700000000-0", b"Task", b"k1", b"", b"1763700000000", b"", b"{}"])
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
    values = written(PLAIN)
    values[place] = value
    with pytest.raises(DecodeError, match=why):
        decode(values)


@pytest.mark.parametrize(
    ("short", "value", "wanted"),
    [
        ("k", "order", "one of event, reply, request"),
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
        ("l", -1, "a number of milliseconds"),
        ("e", "no", "true or false"),
    ],
)
def test_broken_heads(short: str, value: object, wanted: str) -> None:
    with pytest.raises(DecodeError, match=f"the field `{short}` of the head has to be {wanted}"):
        _read(msgpack.packb({short: value}))


def test_what_a_later_version_adds_to_the_head_is_passed_over() -> None:
    assert _read(msgpack.packb({"new": 1, "c": "m0"})).cause == "m0"


def test_a_cause_of_any_length_comes_back() -> None:
    causes = ["x" * length for length in range(1025)]
    assert [_read(encode(PLAIN._replace(cause=cause))[4]).cause for cause in causes] == causes


@pytest.mark.parametrize("cause", ["", "m0", "x" * 16, "x" * 31, "x" * 32, "ü", "ü" * 16])
def test_a_head_that_names_only_a_cause_is_the_same_however_it_is_made(cause: str) -> None:
    made = PLAIN._replace(cause=cause)
    assert encode(made)[4] == msgpack.packb({"c": cause}) == head_of(made)
    assert _read(msgpack.packb({"c": cause})).cause == cause


@pytest.mark.parametrize("rest", [b"", b"\xa2a", b"\xa1ab", b"\xa1\xff", b"\x05", b"\xbf"])
def test_a_cause_that_is_cut_off_too_long_or_no_text_is_refused(rest: bytes) -> None:
    with pytest.raises(DecodeError):
        _read(b"\x81\xa1c" + rest)


def test_the_head_has_limits_too() -> None:
    with pytest.raises(DecodeError, match="the limit is 5"):
        decode([b"", b"", b"", b"", b"0", b"\x80" * 6, b""], Limits(max_bytes=5))


def test_half_a_surrogate_pair_is_not_written() -> None:
    with pytest.raises(EncodeError, match="half of a surrogate pair"):
        encode(PLAIN._replace(cause="\ud800"))
    with pytest.raises(EncodeError, match="surrogates not allowed"):
        pack(encode(PLAIN._replace(key="\ud800")))


@given(st.lists(st.binary(max_size=20), min_size=7, max_size=7))
def test_nothing_but_a_decode_error_is_ever_raised(values: list[bytes]) -> None:
    try:
        decode(values)
    except DecodeError as error:
        assert error.reason  # noqa: PT017


def test_an_event_is_made_as_its_constructor_would() -> None:
    assert event("m1", "Note", "a", None, b"x") == Envelope("m1", "Note", "a", None, 0, b"x")
    made = event("m1", "Note", "a", "boss/b", b"x", "cause", 5, 2, True)
    kept = {"cause": "cause", "expires_in": 5, "version": 2, "claimed": True}
    assert made == Envelope("m1", "Note", "a", "boss/b", 0, b"x", **kept)  # type: ignore[arg-type]
    assert type(made) is Envelope


def asked(third: object, name: str = "d") -> bytes:
    return msgpack.packb({"k": "request", "r": "a process", name: third})


def test_of_the_requests_of_one_process_each_has_its_own_deadline() -> None:
    """The rest of their heads is read once."""
    deadlines = (2**40, 2**40 + 1, 2**64 - 1)
    for deadline in deadlines:
        read = _read(asked(deadline))
        assert (read.kind, read.reply_to, read.deadline) == ("request", "a process", deadline)
    assert _read(asked(5)).deadline == 5


@pytest.mark.parametrize(
    "third", [b"\xa1d\xcf12345678", "\u00a1d\u03c02345678", {"d": 2**40}], ids=["bytes", "text", "map"]
)
def test_what_looks_like_a_deadline_is_none(third: object) -> None:
    head = asked(third, "later")
    assert head[-11:].startswith(b"\xa1d\xcf"), "else it tests nothing"
    assert _read(head).deadline is None


def test_a_head_that_is_cut_before_its_deadline_is_broken() -> None:
    with pytest.raises(DecodeError):
        _read(asked(2**40)[:-1])
