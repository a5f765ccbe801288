"""Replies as the commit wants them."""

from __future__ import annotations

import pytest

from actors import AgentId
from actors.replies import error_reply_to, reply_to
from broker import BrokerSettings, MessageRegistry
from broker.claims import Pointer
from broker.codec import from_values
from broker.envelope import Envelope
from broker.errors import EncodeError, PayloadTooLargeError
from broker.remote_errors import decode_error
from tests.helpers.runtimes import Answer

REQUEST = Envelope("m1", "Ask", "a", "boss/b", 5, b"", kind="request", reply_to="p1", recorded=True)
CLERK = AgentId("clerk", "a")
SMALL = BrokerSettings(max_payload=100)


def test_a_reply_and_its_call() -> None:
    registry = MessageRegistry()
    reply, claim = reply_to(REQUEST, CLERK, Answer(text="x"), registry, SMALL)
    assert reply[:6] == ("p1", "m1", "m1", "Answer", "clerk/a", b"")
    assert claim is None
    reply, _ = reply_to(REQUEST._replace(recorded=False), CLERK, Answer(text="x"), registry, SMALL)
    assert reply[1] == ""


@pytest.mark.parametrize(
    ("request_claimed", "settings"),
    [(True, SMALL), (False, BrokerSettings(max_payload=100, claim_check=True))],
)
def test_a_large_reply_lies_beside_the_stream(request_claimed: bool, settings: BrokerSettings) -> None:
    request = REQUEST._replace(claimed=request_claimed)
    reply, claim = reply_to(request, CLERK, Answer(text="x" * 200), MessageRegistry(), settings)
    assert claim is not None
    assert Pointer.read(reply[6]) == ("blob:m1:reply", len(claim.body))
    assert from_values((b"m1", b"Answer", b"", b"", b"1", reply[5], reply[6])).claimed


def test_what_can_not_be_a_reply() -> None:
    with pytest.raises(PayloadTooLargeError):
        reply_to(REQUEST, CLERK, Answer(text="x" * 200), MessageRegistry(), SMALL)
    with pytest.raises(EncodeError):
        reply_to(REQUEST, CLERK, object(), MessageRegistry(), SMALL)


def test_an_error_goes_to_whoever_waits() -> None:
    reply = error_reply_to(REQUEST, KeyError("name"))
    assert reply is not None
    assert isinstance(decode_error(reply[6]), KeyError)
    assert error_reply_to(REQUEST._replace(kind="event"), KeyError()) is None
    assert error_reply_to(REQUEST._replace(reply_to=None), KeyError()) is None
