"""Sending with a transport that only remembers: what leaves, under which id, and when."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from actors import AgentId, CancellationToken, DefaultInterventionHandler, TopicId, UndeliverableException
from actors.activation import Activation, current
from actors.intervention import InterventionHandler
from actors.runtime_errors import DeadlockError, ScheduleError
from actors.sending import PATIENCE, REMEMBERED, Sender
from broker import BrokerSettings, MessageRegistry
from broker.codec import from_values, head_of_reply
from broker.envelope import Envelope
from broker.errors import OverloadedError, PayloadTooLargeError, RequestTimeoutError, UndeliverableError
from broker.redis.publisher import Posting
from broker.redis.transport import RedisTransport, Reply
from broker.remote_errors import encode_error
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask, Note
from tests.unit.actors.recording import RecordingRuntime

NOW = 1_763_700_000_000
TOPIC = TopicId("news", "a")


class Transport:
    """Keeps what was handed in; answers are set by the test."""

    process = "host:1:abc"

    def __init__(self) -> None:
        self.settings = BrokerSettings(max_payload=1000, request_timeout=5)
        self.posted: list[Posting] = []
        self.asked: list[asyncio.Future[Reply]] = []
        self.forgotten: list[str] = []
        self.orders: list[tuple[Any, ...]] = []
        self.obeys = asyncio.Event()
        self.error: Exception | None = None

    async def order(self, *arguments: Any) -> bool:
        self.orders.append(arguments)
        await self.obeys.wait()
        if self.error is not None:
            raise self.error
        return True

    def now_ms(self) -> int:
        return NOW

    def post(self, posting: Posting) -> asyncio.Future[bool]:
        self.posted.append(posting)
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        future.set_result(True)
        return future

    def ask(self, posting: Posting) -> asyncio.Future[Reply]:
        self.posted.append(posting)
        self.asked.append(asyncio.get_running_loop().create_future())
        return self.asked[-1]

    def forget(self, request_id: str, waiting: asyncio.Future[Reply]) -> None:
        self.forgotten.append(request_id)


class Rig:
    """A sender."""

    def __init__(self, *interventions: InterventionHandler) -> None:
        self.transport = Transport()
        self.registry = MessageRegistry()
        self.sender = Sender(
            RecordingRuntime(), cast("RedisTransport", self.transport), self.registry, interventions
        )
        self.activation = Activation(AgentId("boss", "b"), "parent", ("first/a",), NOW + 3000, self.transport)

    async def publish(self, message: Any = None, **options: Any) -> None:
        defaults = dict.fromkeys(("sender", "token", "message_id", "delay", "at")) | {"now": False}
        await self.sender.publish(message or Note(), TOPIC, **{**defaults, **options})

    def send(self, message: Any = None, to: str = "clerk/a", **options: Any) -> asyncio.Task[Any]:
        defaults = dict.fromkeys(("sender", "token", "message_id", "timeout"))
        call = self.sender.send(message or Ask(), AgentId.from_str(to), **{**defaults, **options})
        return asyncio.create_task(call)

    async def asked(self, number: int = 1) -> None:
        await eventually(lambda: len(self.transport.asked) >= number)

    def answer(self, result: Any, number: int = -1) -> None:
        entry = self.registry.entry_for(result)
        reply = Reply(entry.name.encode(), b"clerk/a", b"", entry.encode(result))
        self.transport.asked[number].set_result(reply)

    def envelope(self, number: int = -1) -> Envelope:
        """What was handed in, as a worker reads it."""
        raw = [
            value.encode() if isinstance(value, str) else value
            for value in self.transport.posted[number].values
        ]
        message_id, kind, key, sender, head, body = cast("list[bytes]", raw)
        return from_values((message_id, kind, key, sender, b"1", head, body))


async def test_a_message_from_outside_leaves_at_once() -> None:
    rig = Rig()
    await rig.publish(Note(text="x"))
    await rig.publish(Note(text="y"), sender=AgentId("boss", "b"))
    (first, second) = rig.transport.posted
    assert (first.stream, first.due, first.once, first.waiting) == ("topic:news", 0, "", "")
    assert first.values[0] != second.values[0]
    assert rig.envelope(0).sender is None
    assert rig.envelope(1).sender == "boss/b"
    assert (rig.envelope(1).type, rig.envelope(1).key, rig.envelope(1).kind) == ("Note", "a", "event")


async def test_an_id_of_its_own_makes_it_idempotent() -> None:
    rig = Rig()
    await rig.publish(message_id="order-1")
    await rig.publish(message_id=">odd")
    assert [posting.once for posting in rig.transport.posted] == ["order-1", "=>odd"]
    assert [posting.values[0] for posting in rig.transport.posted] == ["order-1", ">odd"]


async def test_what_a_handler_publishes_waits_for_its_commit() -> None:
    rig = Rig()
    token = current.set(rig.activation)
    await rig.publish(Note(text="with the commit"), delay=2)
    await rig.publish(Note(text="at once"), now=True)
    current.reset(token)
    assert [posting.due for posting in rig.activation.outgoing] == [2000]
    assert len(rig.transport.posted) == 1
    assert rig.envelope().cause == "parent"
    assert rig.transport.posted[0].once.startswith(">boss:parent|")
    assert rig.activation.has_sent


async def test_every_attempt_gives_the_same_ids() -> None:
    async def attempt() -> list[Any]:
        rig = Rig()
        token = current.set(rig.activation)
        await rig.publish()
        await rig.publish(now=True)
        calls = [rig.send(Ask(text=text)) for text in ("x", "y", "x")]
        await rig.asked(3)
        for call in calls:
            call.cancel()
        current.reset(token)
        return [posting.values[0] for posting in (*rig.activation.outgoing, *rig.transport.posted)]

    first, second = await attempt(), await attempt()
    assert first == second
    assert len(set(first)) == 5


async def test_what_belongs_to_no_running_handler_leaves_at_once() -> None:
    rig, other = Rig(), Rig()
    token = current.set(rig.activation)
    await other.publish()
    rig.activation.is_over = True
    await rig.publish()
    current.reset(token)
    assert rig.activation.outgoing == []
    assert len(rig.transport.posted) == len(other.transport.posted) == 1


async def test_times() -> None:
    rig = Rig()
    at = datetime(2030, 1, 1, tzinfo=UTC)
    await rig.publish(delay=0)
    await rig.publish(delay=1.5)
    await rig.publish(at=at)
    await rig.publish(at=datetime(1960, 1, 1, tzinfo=UTC))
    assert [posting.due for posting in rig.transport.posted] == [0, 1500, int(at.timestamp() * 1000), 0]
    for wrong in ({"delay": -1}, {"delay": 1e9}, {"at": at.replace(tzinfo=None)}, {"at": at, "delay": 1}):
        with pytest.raises(ScheduleError):
            await rig.publish(**wrong)
    await rig.publish(at=at.astimezone() + timedelta(0))


async def test_a_payload_that_is_too_large() -> None:
    rig = Rig()
    with pytest.raises(PayloadTooLargeError):
        await rig.publish(Note(text="x" * 2000))
    with pytest.raises(PayloadTooLargeError):
        await rig.send(Ask(text="x" * 2000))
    assert rig.transport.posted == []


# Requests


async def test_a_request_from_outside() -> None:
    rig = Rig()
    call = rig.send(Ask(text="?"), sender=AgentId("me", "x"))
    await rig.asked()
    rig.answer(Answer(text="!"))
    assert await call == Answer(text="!")
    envelope = rig.envelope()
    assert (envelope.kind, envelope.reply_to, envelope.deadline) == ("request", "host:1:abc", NOW + 5000)
    assert (envelope.sender, envelope.chain, envelope.recorded) == ("me/x", (), False)
    posting = rig.transport.posted[0]
    assert (posting.stream, posting.once, posting.waiting) == ("inbox:clerk", "", "")
    assert rig.transport.forgotten == [envelope.id]


async def test_a_request_of_a_handler() -> None:
    rig = Rig()
    token = current.set(rig.activation)
    call = rig.send(timeout=100)
    await rig.asked()
    current.reset(token)
    rig.answer(Answer())
    await call
    envelope = rig.envelope()
    assert envelope.deadline == NOW + 3000, "no later than that of the request being handled"
    assert envelope.chain == ("first/a", "boss/b")
    assert envelope.recorded
    assert rig.transport.posted[0].waiting == "host:1:abc"


async def test_circles_are_refused_before_anything_leaves() -> None:
    rig = Rig()
    token = current.set(rig.activation)
    for to in ("first/a", "boss/b"):
        with pytest.raises(DeadlockError, match=to):
            await rig.send(to=to)
    call = rig.send(to="first/b")
    await rig.asked()
    call.cancel()
    current.reset(token)


async def test_errors_of_the_other_side() -> None:
    rig = Rig()
    call = rig.send()
    await rig.asked()
    head = head_of_reply(1, error=True)
    rig.transport.asked[0].set_result(Reply(b"error", b"", head, encode_error(KeyError("name"))))
    with pytest.raises(KeyError, match="name"):
        await call
    call = rig.send()
    await rig.asked(2)
    rig.transport.asked[1].set_exception(UndeliverableError("clerk"))
    with pytest.raises(UndeliverableException, match="clerk"):
        await call


async def test_no_answer_in_time() -> None:
    rig = Rig()
    with pytest.raises(RequestTimeoutError, match=r"clerk/a did not answer within 0\.01 s"):
        await rig.send(timeout=0.01)
    assert len(rig.transport.forgotten) == 1


async def test_the_token_of_a_request_is_known_while_it_is_under_way() -> None:
    rig = Rig()
    token = CancellationToken()
    call = rig.send(token=token, message_id="r1")
    await rig.asked()
    assert rig.sender.token_of("r1") is token
    rig.answer(Answer())
    await call
    assert rig.sender.token_of("r1") is None


async def test_a_cancelled_token_reaches_the_server_before_the_caller_goes_on() -> None:
    rig = Rig()
    token = CancellationToken()
    calls = [rig.send(token=token, message_id=f"r{number}", timeout=2) for number in range(3)]
    await rig.asked(len(calls))
    assert rig.sender.token_of("r0") is token
    token.cancel()
    await eventually(lambda: len(rig.transport.orders) == 3)
    assert not any(call.done() for call in calls)
    assert rig.transport.orders[0] == ("cancel", "r0", NOW + 2000 + REMEMBERED)
    rig.transport.obeys.set()
    await asyncio.wait(calls)
    assert all(call.cancelled() for call in calls)
    assert rig.sender.token_of("r0") is None
    with pytest.raises(asyncio.CancelledError):
        await rig.send(token=token)
    with pytest.raises(asyncio.CancelledError):
        await rig.publish(token=token)


async def test_a_caller_that_cancels_does_not_wait_for_ever_for_the_server(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("actors.sending.PATIENCE", PATIENCE / 100)
    rig = Rig()
    token = CancellationToken()
    call = rig.send(token=token)
    await rig.asked(1)
    token.cancel()
    await asyncio.wait({call})
    assert call.cancelled()
    rig.transport.error = OverloadedError("no")
    rig.transport.obeys.set()
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
    rig = Rig(slow)
    publishing = asyncio.create_task(rig.publish())
    sending = rig.send()
    await asyncio.sleep(0)
    assert rig.sender.entering == 2
    slow.go_on.set()
    await publishing
    with pytest.raises(PermissionError):
        await sending
    assert rig.sender.entering == 0
    with pytest.raises(TypeError):
        await rig.publish(object())
    assert rig.sender.entering == 0
