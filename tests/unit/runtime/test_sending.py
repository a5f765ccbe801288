"""Sending with a transport that only remembers: what leaves, under which id, and when."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from callboard import (
    AgentId,
    CancellationToken,
    DefaultInterventionHandler,
    TopicId,
    TypePrefixSubscription,
    UndeliverableException,
)
from callboard.broker import MessageRegistry
from callboard.broker.envelope import Envelope, decode
from callboard.broker.errors import (
    OverloadedError,
    PayloadTooLargeError,
    RequestTimeoutError,
    UndeliverableError,
)
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.remote_errors import encode_error
from callboard.broker.subscriptions import SubscriptionTable
from callboard.core.intervention import InterventionHandler
from callboard.core.protocol import PublishOptions, RequestOptions, SendOptions
from callboard.errors import SettingValueError
from callboard.runtime.agents import LocalAgents
from callboard.runtime.errors import DeadlockError
from callboard.runtime.execution import Execution, current
from callboard.runtime.requests import PATIENCE, REMEMBERED
from callboard.runtime.sending import Audience, Sender
from tests.helpers.eventually import eventually
from tests.helpers.fake_transport import NOW, FakeTransport
from tests.helpers.fuzzing import written
from tests.helpers.runtimes import Answer, Ask, Note
from tests.unit.recording import RecordingRuntime, context

TOPIC = TopicId("news", "a")


class SenderFixture:
    """A sender."""

    def __init__(self, *interventions: InterventionHandler) -> None:
        self.transport = FakeTransport()
        self.registry = MessageRegistry()
        transport = cast("RedisTransport", self.transport)
        subscriptions = SubscriptionTable()
        subscriptions.add(TypePrefixSubscription("", "everybody"))
        audience = Audience(transport, subscriptions, LocalAgents(RecordingRuntime()))
        self.sender = Sender(transport, self.registry, interventions, audience)
        handled = Envelope(
            "parent", "Ask", "b", None, 5, b"", "request", chain=("first/a",), deadline=NOW + 3000
        )
        self.execution = Execution(AgentId("boss", "b"), handled, context(), self.transport)

    async def publish(self, message: Any = None, **options: Any) -> None:
        sender, token, name = (options.pop(one, None) for one in ("sender", "token", "message_id"))
        how = SendOptions.of_event(name, cast("PublishOptions", options))
        posted = self.sender.publish(message or Note(), TOPIC, sender, token, how)
        if posted is not None:
            await posted

    def send(self, message: Any = None, to: str = "clerk/a", **options: Any) -> asyncio.Task[Any]:
        sender, token, name = (options.pop(one, None) for one in ("sender", "token", "message_id"))
        how = SendOptions.of_request(name, cast("RequestOptions", options))
        call = self.sender.send(message or Ask(), AgentId.from_str(to), sender, token, how)
        return asyncio.create_task(call)

    async def asked(self, number: int = 1) -> None:
        await eventually(lambda: len(self.transport.asked) >= number)

    def answer(self, result: Any, number: int = -1) -> None:
        entry = self.registry.entry_for(result)
        reply = Envelope("r", entry.name, "", "clerk/a", 5, entry.encode(result), "reply")
        self.transport.asked[number].set_result(reply)

    def envelope(self, number: int = -1) -> Envelope:
        """What was handed in, as a worker reads it."""
        return decode(written(self.transport.posted[number].envelope))


async def test_a_message_from_outside_leaves_at_once() -> None:
    fixture = SenderFixture()
    await fixture.publish(Note(text="x"))
    await fixture.publish(Note(text="y"), sender=AgentId("boss", "b"))
    (first, second) = fixture.transport.posted
    assert (first.stream, first.due, first.idempotency_id, first.waiting) == ("topic:news", 0, "", "")
    assert first.envelope.id != second.envelope.id
    assert fixture.envelope(0).sender is None
    assert fixture.envelope(1).sender == "boss/b"
    assert (fixture.envelope(1).type, fixture.envelope(1).key, fixture.envelope(1).kind) == (
        "Note",
        "a",
        "event",
    )


async def test_an_id_of_its_own_makes_it_idempotent() -> None:
    fixture = SenderFixture()
    await fixture.publish(message_id="order-1")
    await fixture.publish(message_id=">odd")
    assert [posting.idempotency_id for posting in fixture.transport.posted] == ["order-1", "=>odd"]
    assert [posting.envelope.id for posting in fixture.transport.posted] == ["order-1", ">odd"]


async def test_what_a_handler_publishes_waits_for_its_commit() -> None:
    fixture = SenderFixture()
    token = current.set(fixture.execution)
    await fixture.publish(Note(text="with the commit"), delay=2)
    await fixture.publish(Note(text="at once"), now=True)
    current.reset(token)
    assert [posting.due for posting in fixture.execution.outgoing] == [2000]
    assert len(fixture.transport.posted) == 1
    assert fixture.envelope().cause == "parent"
    assert fixture.transport.posted[0].idempotency_id.startswith(">boss:parent|")
    assert fixture.execution.has_sent


async def test_every_attempt_gives_the_same_ids() -> None:
    async def attempt() -> list[Any]:
        fixture = SenderFixture()
        token = current.set(fixture.execution)
        await fixture.publish()
        await fixture.publish(now=True)
        calls = [fixture.send(Ask(text=text)) for text in ("x", "y", "x")]
        await fixture.asked(3)
        for call in calls:
            call.cancel()
        current.reset(token)
        return [posting.envelope.id for posting in (*fixture.execution.outgoing, *fixture.transport.posted)]

    first, second = await attempt(), await attempt()
    assert first == second
    assert len(set(first)) == 5


async def test_what_belongs_to_no_running_handler_leaves_at_once() -> None:
    fixture, other = SenderFixture(), SenderFixture()
    token = current.set(fixture.execution)
    await other.publish()
    fixture.execution.is_over = True
    await fixture.publish()
    current.reset(token)
    assert fixture.execution.outgoing == []
    assert len(fixture.transport.posted) == len(other.transport.posted) == 1


async def test_times() -> None:
    fixture = SenderFixture()
    at = datetime(2030, 1, 1, tzinfo=UTC)
    await fixture.publish(delay=0)
    await fixture.publish(delay=1.5)
    await fixture.publish(at=at)
    await fixture.publish(at=datetime(1960, 1, 1, tzinfo=UTC))
    await fixture.publish(at=datetime(1972, 1, 1, tzinfo=UTC))
    due = [posting.due for posting in fixture.transport.posted]
    assert due == [0, 1500, -int(at.timestamp() * 1000), 0, -63_072_000_000]
    for wrong in ({"delay": -1}, {"delay": 1e9}, {"at": at.replace(tzinfo=None)}, {"at": at, "delay": 1}):
        with pytest.raises(SettingValueError):
            await fixture.publish(**wrong)
    await fixture.publish(at=at.astimezone() + timedelta(0))


async def test_how_long_an_event_lives() -> None:
    fixture = SenderFixture()
    await fixture.publish()
    await fixture.publish(expires_in=1.5, delay=60)
    await fixture.publish(expires_in=0.0001)
    assert [fixture.envelope(number).expires_in for number in range(3)] == [None, 1500, 1]
    for wrong in (0, -1, 1e9, float("nan")):
        with pytest.raises(SettingValueError, match="expires_in"):
            await fixture.publish(expires_in=wrong)
    with pytest.raises(TypeError, match="no option 'expires_in'"):
        fixture.send(expires_in=5)


async def test_a_payload_that_is_too_large() -> None:
    fixture = SenderFixture()
    with pytest.raises(PayloadTooLargeError):
        await fixture.publish(Note(text="x" * 2000))
    with pytest.raises(PayloadTooLargeError):
        await fixture.send(Ask(text="x" * 2000))
    assert fixture.transport.posted == []


# Requests


async def test_a_request_from_outside() -> None:
    fixture = SenderFixture()
    call = fixture.send(Ask(text="?"), sender=AgentId("me", "x"))
    await fixture.asked()
    fixture.answer(Answer(text="!"))
    assert await call == Answer(text="!")
    envelope = fixture.envelope()
    assert (envelope.kind, envelope.reply_to, envelope.deadline) == ("request", "host:1:abc", NOW + 5000)
    assert (envelope.sender, envelope.chain, envelope.recorded) == ("me/x", (), False)
    posting = fixture.transport.posted[0]
    assert (posting.stream, posting.idempotency_id, posting.waiting) == ("inbox:clerk", "", "")
    assert fixture.transport.forgotten == [envelope.id]


async def test_a_request_of_a_handler() -> None:
    fixture = SenderFixture()
    token = current.set(fixture.execution)
    call = fixture.send(timeout=100)
    await fixture.asked()
    current.reset(token)
    fixture.answer(Answer())
    await call
    envelope = fixture.envelope()
    assert envelope.deadline == NOW + 3000, "no later than that of the request being handled"
    assert envelope.chain == ("first/a", "boss/b")
    assert envelope.recorded
    assert fixture.transport.posted[0].waiting == "host:1:abc"


async def test_circles_are_refused_before_anything_leaves() -> None:
    fixture = SenderFixture()
    token = current.set(fixture.execution)
    for to in ("first/a", "boss/b"):
        with pytest.raises(DeadlockError, match=to):
            await fixture.send(to=to)
    call = fixture.send(to="first/b")
    await fixture.asked()
    call.cancel()
    current.reset(token)


async def test_errors_of_the_other_side() -> None:
    fixture = SenderFixture()
    call = fixture.send()
    await fixture.asked()
    failure = Envelope("r", "error", "", None, 5, encode_error(KeyError("name")), "reply", error=True)
    fixture.transport.asked[0].set_result(failure)
    with pytest.raises(KeyError, match="name"):
        await call
    call = fixture.send()
    await fixture.asked(2)
    fixture.transport.asked[1].set_exception(UndeliverableError("clerk"))
    with pytest.raises(UndeliverableException, match="clerk"):
        await call


async def test_no_answer_in_time() -> None:
    fixture = SenderFixture()
    with pytest.raises(RequestTimeoutError, match=r"clerk/a did not answer within 0\.01 s"):
        await fixture.send(timeout=0.01)
    assert len(fixture.transport.forgotten) == 1


async def test_the_token_of_a_request_is_known_while_it_is_under_way() -> None:
    fixture = SenderFixture()
    token = CancellationToken()
    call = fixture.send(token=token, message_id="r1")
    await fixture.asked()
    assert fixture.sender.tokens.of("r1") is token
    fixture.answer(Answer())
    await call
    assert fixture.sender.tokens.of("r1") is None


async def test_one_id_sent_twice_with_two_tokens() -> None:
    fixture = SenderFixture()
    first, second = CancellationToken(), CancellationToken()
    calls = [fixture.send(token=token, message_id="r1") for token in (first, second)]
    await fixture.asked(2)
    assert fixture.sender.tokens.of("r1") is first
    fixture.transport.obeys.set()
    first.cancel()
    await asyncio.wait(calls[:1])
    assert fixture.sender.tokens.of("r1") is second
    second.cancel()
    await asyncio.wait(calls)
    assert fixture.sender.tokens.of("r1") is None


async def test_a_cancelled_token_reaches_the_server_before_the_caller_goes_on() -> None:
    fixture = SenderFixture()
    token = CancellationToken()
    calls = [fixture.send(token=token, message_id=f"r{number}", timeout=2) for number in range(3)]
    await fixture.asked(len(calls))
    assert fixture.sender.tokens.of("r0") is token
    token.cancel()
    await eventually(lambda: len(fixture.transport.orders) == 3)
    assert not any(call.done() for call in calls)
    assert fixture.transport.orders[0] == ("cancel", "r0", NOW + 2000 + REMEMBERED)
    fixture.transport.obeys.set()
    await asyncio.wait(calls)
    assert all(call.cancelled() for call in calls)
    assert fixture.sender.tokens.of("r0") is None
    with pytest.raises(asyncio.CancelledError):
        await fixture.send(token=token)
    with pytest.raises(asyncio.CancelledError):
        await fixture.publish(token=token)


async def test_a_caller_that_cancels_does_not_wait_for_ever_for_the_server(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("callboard.runtime.requests.PATIENCE", PATIENCE / 100)
    fixture = SenderFixture()
    token = CancellationToken()
    call = fixture.send(token=token)
    await fixture.asked(1)
    token.cancel()
    await asyncio.wait({call})
    assert call.cancelled()
    fixture.transport.error = OverloadedError("no")
    fixture.transport.obeys.set()
    await eventually(lambda: "could not be told" in caplog.text)


class Slow(DefaultInterventionHandler):
    """Holds every message until it is let go."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def on_publish(self, message: Any, *, message_context: Any) -> Any:
        await self.go_on.wait()
        return message

    async def on_send(self, message: Any, *, message_context: Any, recipient: AgentId) -> Any:
        await self.go_on.wait()
        raise PermissionError


async def test_a_call_counts_from_its_first_moment_until_it_left_or_failed() -> None:
    slow = Slow()
    fixture = SenderFixture(slow)
    publishing = asyncio.create_task(fixture.publish())
    sending = fixture.send()
    await asyncio.sleep(0)
    assert fixture.sender.entering == 2
    slow.go_on.set()
    await publishing
    with pytest.raises(PermissionError):
        await sending
    assert fixture.sender.entering == 0
    with pytest.raises(TypeError):
        await fixture.publish(object())
    assert fixture.sender.entering == 0
