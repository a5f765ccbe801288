"""Replies as the commit wants them."""

from __future__ import annotations

import pytest

from callboard import AgentId
from callboard.broker import BrokerSettings, MessageRegistry
from callboard.broker.envelope import Envelope, Pointer, decode
from callboard.broker.errors import EncodeError, PayloadTooLargeError
from callboard.broker.redis.client.lane import reply_values
from callboard.broker.remote_errors import decode_error
from callboard.runtime.requests import error_reply_to, reply_to
from tests.helpers.fuzzing import written
from tests.helpers.runtimes import Answer

REQUEST = Envelope("m1", "Ask", "a", "boss/b", 5, b"", kind="request", reply_to="p1", recorded=True)
CLERK = AgentId("clerk", "a")
SMALL = BrokerSettings(max_payload=100)


def test_a_reply_and_its_call() -> None:
    registry = MessageRegistry()
    reply = reply_to(REQUEST, CLERK, Answer(text="x"), registry, SMALL)
    envelope = reply.envelope
    assert (envelope.id, envelope.type, envelope.sender, envelope.kind) == (
        "m1",
        "Answer",
        "clerk/a",
        "reply",
    )
    assert (reply.stream, reply.idempotency_id, reply.claim) == ("reply:p1", "m1", None)
    assert reply_values(reply)[:5] == ("p1", "m1", "m1", "Answer", "clerk/a")
    reply = reply_to(REQUEST._replace(recorded=False), CLERK, Answer(text="x"), registry, SMALL)
    assert reply.idempotency_id == ""


@pytest.mark.parametrize(
    ("request_claimed", "settings"),
    [(True, SMALL), (False, BrokerSettings(max_payload=100, claim_check=True))],
)
def test_a_large_reply_lies_beside_the_stream(request_claimed: bool, settings: BrokerSettings) -> None:
    request = REQUEST._replace(claimed=request_claimed)
    reply = reply_to(request, CLERK, Answer(text="x" * 200), MessageRegistry(), settings)
    assert reply.claim is not None
    assert Pointer.read(reply.envelope.body) == ("blob:m1:reply", len(reply.claim.body))
    assert decode(written(reply.envelope)).claimed


def test_what_can_not_be_a_reply() -> None:
    with pytest.raises(PayloadTooLargeError):
        reply_to(REQUEST, CLERK, Answer(text="x" * 200), MessageRegistry(), SMALL)
    with pytest.raises(EncodeError):
        reply_to(REQUEST, CLERK, object(), MessageRegistry(), SMALL)


def test_an_error_goes_to_whoever_waits() -> None:
    reply = error_reply_to(REQUEST, KeyError("name"))
    assert reply is not None
    assert isinstance(decode_error(reply.envelope.body), KeyError)
    assert error_reply_to(REQUEST._replace(kind="event"), KeyError()) is None
    assert error_reply_to(REQUEST._replace(reply_to=None), KeyError()) is None
