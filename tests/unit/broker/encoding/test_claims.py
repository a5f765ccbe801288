"""Pointers to bytes beside a stream, and which messages get one."""

from __future__ import annotations

import pytest

from callboard.broker import BrokerSettings
from callboard.broker.envelope import Claim, Pointer, is_set_aside, reply_claim, shown
from callboard.broker.errors import DecodeError, PayloadTooLargeError

SETTINGS = BrokerSettings(max_payload=100, max_claim=1000)
FOR_ALL = BrokerSettings(max_payload=100, max_claim=1000, claim_check=True)


def test_a_pointer_comes_back() -> None:
    claim = Claim("blob:8x2k1", b"x" * 5000)
    assert claim.pointer == b'{"claim":"blob:8x2k1","bytes":5000}'
    assert Pointer.read(claim.pointer) == ("blob:8x2k1", 5000)
    assert shown(claim.pointer) == "5,000 bytes in blob:8x2k1, field `body`"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x81\xa1a\x01",
        b'{"claim":"state:counter:main","bytes":5}',
        b'{"claim":"blob:a b","bytes":5}',
        b'{"claim":"blob:a","bytes":-5}',
        b'{"claim":"blob:a","bytes":5} ',
        b'{"claim":"blob:","bytes":5}',
    ],
)
def test_what_is_no_pointer(body: bytes) -> None:
    with pytest.raises(DecodeError, match="no pointer"):
        Pointer.read(body)
    assert shown(body) is None


@pytest.mark.parametrize(
    ("size", "claim_check", "settings", "aside"),
    [
        (10, None, SETTINGS, False),
        (10, False, FOR_ALL, False),
        (10, None, FOR_ALL, False),
        (10, True, SETTINGS, True),
        (101, True, SETTINGS, True),
        (101, None, FOR_ALL, True),
        (1000, None, FOR_ALL, True),
    ],
)
def test_what_goes_beside_the_stream(
    size: int, claim_check: bool | None, settings: BrokerSettings, aside: bool
) -> None:
    assert is_set_aside(size, claim_check, settings) is aside


@pytest.mark.parametrize(("claim_check", "settings"), [(None, SETTINGS), (False, SETTINGS), (False, FOR_ALL)])
def test_what_is_refused(claim_check: bool | None, settings: BrokerSettings) -> None:
    with pytest.raises(PayloadTooLargeError) as caught:
        is_set_aside(101, claim_check, settings)
    assert type(caught.value) is PayloadTooLargeError
    assert (caught.value.size, caught.value.limit) == (101, 100)


def test_what_is_too_large_for_that_too() -> None:
    with pytest.raises(PayloadTooLargeError, match=r"1,001 bytes.*max_claim"):
        is_set_aside(1001, True, SETTINGS)


@pytest.mark.parametrize("request_id", ["my id", 'a"b', "é", "x" * 300, "\ud800"])
def test_the_name_of_a_reply_can_be_read_whatever_the_request_is_called(request_id: str) -> None:
    claim = reply_claim(request_id, b"abc")
    assert Pointer.read(claim.pointer) == (claim.name, 3)
    assert claim.name != reply_claim("other", b"abc").name
    assert reply_claim("m-1.2_3", b"").name == "blob:m-1.2_3:reply"
