"""The host on its own: deliveries made by hand, outcomes looked at; no server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, cast

import pytest
from pydantic import BaseModel

from callboard import AgentId, CancellationToken, MessageContext, RoutedAgent, TopicId, event, rpc
from callboard.broker import MessageRegistry
from callboard.broker.envelope import Delivery, Envelope, Posting, head_of, read_delivery
from callboard.broker.errors import DeadlineExceededError, DecodeError
from callboard.broker.mailbox import Mailbox
from callboard.broker.outcome import Commit, DeadLetter, Release, Retry, Wait
from callboard.broker.redis.client.states import StoredState
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.remote_errors import decode_error
from callboard.broker.retry import RetryPolicy
from callboard.broker.telemetry import Dropped, attach
from callboard.core.declaration import AgentSettings
from callboard.foundation import CantHandleException
from callboard.runtime.agents import UNKNOWN, LocalAgents
from callboard.runtime.errors import MaxRuntimeError, register_errors
from callboard.runtime.execution import Executions, current
from callboard.runtime.host import AgentHost
from tests.helpers.eventually import eventually
from tests.helpers.fake_transport import NOW, FakeTransport
from tests.helpers.runtimes import Answer, Ask, Note
from tests.unit.recording import RecordingRuntime

EVENT = Envelope("m1", "Note", "a", None, 5, b"")


class Unspeakable(Exception):
    """Its text can't be made."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Worker(RoutedAgent):
    """Does what a message says."""

    class State(BaseModel):
        """What was done."""

        done: list[str] = []

    contexts: ClassVar[list[MessageContext]] = []

    def __init__(self) -> None:
        super().__init__("works")
        self.actions: dict[str, Callable[[], Any]] = {}

    async def _do(self, text: str, ctx: MessageContext) -> Any:
        type(self).contexts.append(ctx)
        self.state.done.append(text)
        if text == "fail":
            raise LookupError("no")
        if text == "unspeakable":
            raise Unspeakable
        if text == "exit":
            raise SystemExit(1)
        if text == "hang":
            await asyncio.Event().wait()
        if text == "cancelled":
            raise asyncio.CancelledError
        if text == "send":
            execution = current.get()
            assert execution is not None
            execution.outgoing.append(Posting(Envelope("id", "Note", "a", None, 0, b"{}"), "topic:x"))
        if text == "once":
            await ctx.once("effect", _effect)
        return Answer(text="x" * 6000 if text == "large" else text)

    @event
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        await self._do(message.text, ctx)

    @rpc
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Any:
        return object() if message.text == "object" else await self._do(message.text, ctx)


async def _effect() -> str:
    return "done"


def request_head(deadline: int, chain: tuple[str, ...] = (), recorded: bool = False) -> bytes:
    return head_of(
        EVENT._replace(kind="request", reply_to="p1", deadline=deadline, chain=chain, recorded=recorded)
    )


class HostFixture:
    """A host with one agent type."""

    def __init__(self, **settings: Any) -> None:
        Worker.contexts = []
        register_errors()
        self.agents = LocalAgents(RecordingRuntime())
        self.agents.add_type("worker", Worker, Worker, AgentSettings.of(settings))
        self.registry = MessageRegistry()
        self.registry.register(Note, Ask, Answer)
        self.tokens: dict[str, CancellationToken] = {}
        self.transport = FakeTransport(max_payload=5000)
        transport = cast("RedisTransport", self.transport)
        self.host = AgentHost(
            self.agents,
            Executions(transport, self.registry, self.tokens.get),
            RetryPolicy(),
            declare=self._declare,
            on_turn=lambda turn: None,
        )

    async def _declare(self) -> None: ...

    def delivery(
        self, message: Any, *, tries: bytes = b"", head: bytes = b"", sender: bytes = b"", **given: bytes
    ) -> Delivery:
        entry = self.registry.entry_for(message)
        values = (
            b"worker",
            given.get("stream", b"topic:work"),
            b"5-0",
            tries,
            given.get("id", b"m1"),
            given.get("type", entry.name.encode()),
            b"a",
            sender,
            given.get("at", b"4"),
            head,
            given.get("body", entry.encode(message)),
        )
        delivery = read_delivery(values)
        delivery.mailbox = Mailbox((b"worker", b"a"))
        delivery.state = b""
        return delivery

    def request(self, text: str = "", deadline: int = NOW + 1000, recorded: bool = False) -> Delivery:
        return self.delivery(
            Ask(text=text), head=request_head(deadline, ("first/a",), recorded), stream=b"inbox:worker"
        )

    def live(self) -> Any:
        return self.agents.kind("worker").live["a"]


def _error(outcome: object) -> BaseException:
    if isinstance(outcome, Wait):
        outcome = outcome.otherwise
    assert isinstance(outcome, Commit | DeadLetter)
    assert outcome.reply is not None
    return decode_error(outcome.reply.envelope.body)


async def test_an_event_that_changes_state_and_sends() -> None:
    fixture = HostFixture()
    outcome = await fixture.host.handle(fixture.delivery(Note(text="send")))
    assert isinstance(outcome, Commit)
    assert outcome.state == (1, b'{"done":["send"]}')
    assert [posting.stream for posting in outcome.outgoing] == ["topic:x"]
    assert (outcome.reply, outcome.once_of) == (None, None)
    assert (fixture.host.handled, fixture.host.failed) == (1, 0)


async def test_the_context_of_an_event() -> None:
    fixture = HostFixture()
    head = head_of(EVENT._replace(cause="parent"))
    await fixture.host.handle(fixture.delivery(Note(), head=head, sender=b"boss/b/c", tries=b"2 17 why"))
    (ctx,) = Worker.contexts
    assert (ctx.sender, ctx.topic_id, ctx.is_rpc) == (AgentId("boss", "b/c"), TopicId("work", "a"), False)
    assert (ctx.message_id, ctx.attempt, ctx.deadline) == ("m1", 3, None)


async def test_an_entry_added_by_hand_has_an_id_of_its_own() -> None:
    fixture = HostFixture()
    await fixture.host.handle(fixture.delivery(Note(), id=b"", body=b'{"text":"by hand"}'))
    assert [(ctx.message_id, ctx.sender) for ctx in Worker.contexts] == [("topic:work:5-0", None)]


async def test_a_response() -> None:
    fixture = HostFixture()
    outcome = await fixture.host.handle(fixture.request("x", recorded=True))
    assert isinstance(outcome, Commit)
    assert outcome.reply is not None
    reply = outcome.reply.envelope
    assert (outcome.reply.stream, outcome.reply.idempotency_id) == ("reply:p1", "m1")
    assert (reply.id, reply.type, reply.sender, reply.kind) == ("m1", "Answer", "worker/a", "reply")
    assert fixture.registry.decode("Answer", 1, outcome.reply.envelope.body) == Answer(text="x")
    (ctx,) = Worker.contexts
    assert (ctx.topic_id, ctx.is_rpc, ctx.deadline) == (None, True, (NOW + 1000) / 1000)
    plain = await fixture.host.handle(fixture.request("x"))
    assert isinstance(plain, Commit)
    assert plain.reply is not None
    assert plain.reply.idempotency_id == "", "nobody may ask for it again"


@pytest.mark.parametrize("text", ["fail", "exit", "cancelled"])
async def test_a_failing_event_is_tried_again_then_dead(text: str) -> None:
    fixture = HostFixture(max_attempts=2)
    first = await fixture.host.handle(fixture.delivery(Note(text=text)))
    assert isinstance(first, Retry)
    last = await fixture.host.handle(fixture.delivery(Note(text=text), tries=b"1 17 why"))
    assert isinstance(last, DeadLetter)
    assert last.error is not None
    assert "in _do" in last.error.traceback
    assert fixture.live().agent.state.done == [], "rolled back"
    assert (fixture.host.handled, fixture.host.failed) == (0, 1)
    assert isinstance(fixture.host.first_error, LookupError | SystemExit | asyncio.CancelledError)


async def test_a_failing_request_is_answered() -> None:
    fixture = HostFixture()
    error = _error(await fixture.host.handle(fixture.request("fail")))
    assert isinstance(error, LookupError)
    assert fixture.host.first_error is None, "it is the caller's"
    assert isinstance(_error(await fixture.host.handle(fixture.request("object"))), TypeError)
    assert isinstance(_error(await fixture.host.handle(fixture.request("large"))), ValueError)


async def test_an_error_whose_text_cannot_be_made_is_answered_too() -> None:
    fixture = HostFixture()
    error = _error(await fixture.host.handle(fixture.request("unspeakable")))
    assert "text can't be made: RuntimeError" in str(error)


async def test_a_request_nobody_handles() -> None:
    fixture = HostFixture()
    head = request_head(NOW + 1000)
    outcome = await fixture.host.handle(fixture.delivery(Note(), head=head, stream=b"inbox:worker"))
    assert isinstance(_error(outcome), CantHandleException)


async def test_a_request_that_is_tried_again_where_its_type_wants_it() -> None:
    fixture = HostFixture(retry_on_request=True, max_attempts=2)
    assert isinstance(await fixture.host.handle(fixture.request("fail")), Retry)
    last = fixture.request("fail")
    last.tries = b"1 17 why"
    assert isinstance(_error(await fixture.host.handle(last)), LookupError)


async def test_what_nobody_waits_for_any_more_is_not_begun() -> None:
    fixture = HostFixture()
    late = await fixture.host.handle(fixture.request("x", deadline=NOW - 1))
    assert isinstance(_error(late), DeadlineExceededError)
    fixture.tokens["m1"] = CancellationToken()
    fixture.tokens["m1"].cancel()
    await fixture.host.handle(fixture.request("x"))
    assert Worker.contexts == []
    assert fixture.host.handled == 0


async def test_an_agent_does_not_handle_what_it_published_itself() -> None:
    fixture = HostFixture()
    assert await fixture.host.handle(fixture.delivery(Note(), sender=b"worker/a")) == Commit()
    assert "a" not in fixture.agents.kind("worker").live
    await fixture.host.handle(fixture.delivery(Note(), sender=b"worker/b"))
    assert len(Worker.contexts) == 1


async def test_what_can_not_be_decoded_is_dead_and_a_requester_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fixture = HostFixture()
    outcome = await fixture.host.handle(fixture.delivery(Note(), type=b"Nobody"))
    assert isinstance(outcome, Wait)
    assert (outcome.message, outcome.version) == ("Nobody", 1)
    assert outcome.otherwise.reason.startswith("decode: ")
    assert outcome.otherwise.reply is None
    assert "can't read Nobody" in caplog.text
    asked = fixture.delivery(Ask(), type=b"Nobody", head=request_head(NOW + 1000), stream=b"inbox:worker")
    error = _error(await fixture.host.handle(asked))
    assert isinstance(error, DecodeError)
    assert error.is_unknown
    broken = await fixture.host.handle(fixture.delivery(Note(), head=b"\xc1\xc1", body=b"\xc1"))
    assert isinstance(broken, DeadLetter)
    assert fixture.host.failed == 3


async def test_a_factory_that_fails_is_a_failure_of_the_message(caplog: pytest.LogCaptureFixture) -> None:
    fixture = HostFixture(max_attempts=1)
    fixture.agents.kind("worker").factory = lambda: 1 / 0
    outcome = await fixture.host.handle(fixture.delivery(Note()))
    assert isinstance(outcome, DeadLetter)
    assert outcome.error is not None
    assert outcome.error.type == "ZeroDivisionError"
    assert "the agent's factory raised it" in caplog.text
    assert "raised by the factory of 'worker', which was making worker/a" in outcome.error.traceback


async def test_junk_whose_head_is_whole_is_answered() -> None:
    fixture = HostFixture()
    asked = fixture.delivery(Ask(), type=b"\xff", head=request_head(NOW + 1000), stream=b"inbox:worker")
    assert asked.broken is not None
    letter = await fixture.host.handle(asked)
    assert isinstance(letter, DeadLetter)
    assert letter.reason.startswith("decode: the id, type, key or sender")
    assert isinstance(_error(letter), DecodeError)


async def test_an_event_that_is_begun_too_late_is_dropped() -> None:
    fixture = HostFixture()
    events: list[object] = []
    late = head_of(EVENT._replace(expires_in=999))
    detach = attach(events.append)
    outcome = await fixture.host.handle(fixture.delivery(Note(), head=late, at=b"%d" % (NOW - 1000)))
    detach()
    assert outcome == Commit(dropped="expired")
    assert events == [Dropped("worker/a", "m1", "Note", "expired")]
    assert (fixture.host.handled, fixture.host.failed, fixture.host.dropped) == (0, 0, 1)
    in_time = head_of(EVENT._replace(expires_in=1000))
    await fixture.host.handle(fixture.delivery(Note(), head=in_time, at=b"%d" % (NOW - 1000)))
    assert len(Worker.contexts) == 1


async def test_an_event_that_was_begun_in_time_is_tried_again_later() -> None:
    fixture = HostFixture()
    late = head_of(EVENT._replace(expires_in=1))
    await fixture.host.handle(fixture.delivery(Note(), head=late, at=b"4", tries=b"1 17 why"))
    assert [ctx.attempt for ctx in Worker.contexts] == [2]


async def test_what_happens_is_told_to_listeners() -> None:
    fixture = HostFixture(max_attempts=1)
    events: list[object] = []
    detach = attach(events.append)
    await fixture.host.handle(fixture.delivery(Note()))
    await fixture.host.handle(fixture.delivery(Note(text="fail")))
    await fixture.host.handle(fixture.request("x", deadline=NOW - 1))
    detach()
    told = [type(one).__name__ for one in events]
    assert told == ["Started", "Handled", "Started", "DeadLettered", "Dropped"]


async def test_the_policy_of_an_agent_type_decides() -> None:
    class Never(RetryPolicy):
        def decide(self, *args: Any, **options: Any) -> Retry | DeadLetter:
            return DeadLetter("never")

    fixture = HostFixture(retry=Never())
    assert await fixture.host.handle(fixture.delivery(Note(text="fail"))) == DeadLetter("never")
    asked = HostFixture(retry=RetryPolicy(max_attempts=2), retry_on_request=True)
    assert isinstance(await asked.host.handle(asked.request("fail")), Retry)


# State


async def test_the_state_that_came_along_is_used_and_then_kept_in_memory() -> None:
    fixture = HostFixture()
    first = fixture.delivery(Note(text="2"))
    first.state_version, first.state = 1, b'{"done":["1"]}'
    outcome = await fixture.host.handle(first)
    assert isinstance(outcome, Commit)
    assert outcome.state == (2, b'{"done":["1","2"]}')
    second = fixture.delivery(Note(text="3"))
    second.mailbox, second.state = first.mailbox, b'{"done":["not looked at"]}'
    outcome = await fixture.host.handle(second)
    assert isinstance(outcome, Commit)
    assert outcome.state == (3, b'{"done":["1","2","3"]}')
    assert fixture.transport.loads == 0


@pytest.mark.parametrize("why", ["unknown", "another version"])
async def test_the_state_is_asked_for_when_it_did_not_come_along(why: str) -> None:
    fixture = HostFixture()
    await fixture.host.handle(fixture.delivery(Note(text="1")))
    fixture.transport.stored = StoredState(7, b'{"done":["elsewhere"]}')
    later = fixture.delivery(Note(text="2"))
    later.state = None
    later.state_version = 1 if why == "unknown" else 7
    later.state_unknown = why == "unknown"
    outcome = await fixture.host.handle(later)
    assert isinstance(outcome, Commit)
    assert outcome.state == (8, b'{"done":["elsewhere","2"]}')
    assert fixture.transport.loads == 1


async def test_the_state_of_an_agent_that_was_put_to_sleep_is_asked_for() -> None:
    """It waited in a full worker, handed over without its state, and the agent is made anew when its turn comes."""
    fixture = HostFixture()
    fixture.transport.stored = StoredState(7, b'{"done":["before"]}')
    handed_over = fixture.delivery(Note(text="1"))
    handed_over.state, handed_over.state_version = None, 0
    outcome = await fixture.host.handle(handed_over)
    assert isinstance(outcome, Commit)
    assert outcome.state == (8, b'{"done":["before","1"]}')


async def test_a_worker_that_wrote_the_state_itself_does_not_ask() -> None:
    fixture = HostFixture()
    await fixture.host.handle(fixture.delivery(Note(text="1")))
    later = fixture.delivery(Note(text="2"))
    later.state, later.state_version = None, 1
    await fixture.host.handle(later)
    assert fixture.transport.loads == 0


async def test_after_a_lost_lease_persistent_agents_are_loaded_again() -> None:
    fixture = HostFixture()
    await fixture.host.handle(fixture.delivery(Note(text="1")))
    instance = fixture.live()
    fixture.host.fenced(())
    assert fixture.agents.kind("worker").live == {}
    fixture.agents.kind("worker").factory = None
    fixture.agents.kind("worker").live["a"] = instance
    fixture.host.fenced(())
    assert fixture.live() is instance, "an instance can't be made again"
    assert (instance.version, instance.mailbox) == (UNKNOWN, None)


async def test_agents_that_are_used_at_one_time_share_it() -> None:
    fixture = HostFixture()
    fixture.host.now = now = 12.5
    await fixture.host.handle(fixture.delivery(Note(text="x")))
    assert fixture.live().used is now


async def test_an_agent_without_state_keeps_no_mailbox() -> None:
    fixture = HostFixture()
    await fixture.host.handle(delivery := fixture.delivery(Note(text="x")))
    assert fixture.live().mailbox is delivery.mailbox
    fixture.agents.kind("worker").persistent = False
    fixture.agents.kind("worker").live.clear()
    await fixture.host.handle(fixture.delivery(Note(text="x")))
    assert fixture.live().mailbox is None


async def test_a_state_that_did_not_change_is_not_written() -> None:
    fixture = HostFixture()
    outcome = await fixture.host.handle(fixture.request("x"))
    assert isinstance(outcome, Commit)
    assert outcome.state == (1, b'{"done":["x"]}')
    fixture.live().agent._do = lambda text, ctx: asyncio.sleep(0, Answer())
    again = fixture.request("y")
    again.mailbox = fixture.live().mailbox
    outcome = await fixture.host.handle(again)
    assert isinstance(outcome, Commit)
    assert outcome.state is None


async def test_records_of_effects_go_with_the_commit() -> None:
    fixture = HostFixture()
    outcome = await fixture.host.handle(fixture.delivery(Note(text="once")))
    assert isinstance(outcome, Commit)
    assert outcome.once_of == "m1"


# Time


async def test_a_handler_past_its_limit() -> None:
    fixture = HostFixture(max_runtime=0.02, max_attempts=1)
    outcome = await fixture.host.handle(fixture.delivery(Note(text="hang")))
    assert isinstance(outcome, DeadLetter)
    assert outcome.error is not None
    assert outcome.error.type == MaxRuntimeError.__name__
    assert fixture.host.limits.overdue() == 0


async def test_overdue_is_seen_from_outside() -> None:
    fixture = HostFixture(max_runtime=0.001)
    fixture.agents.kind("worker").settings = AgentSettings(max_runtime=0.001)
    handling = asyncio.ensure_future(fixture.host.handle(fixture.delivery(Note(text="hang"))))
    await asyncio.sleep(0)
    while fixture.host.limits.overdue() == 0:
        pass  # as a handler that blocks the event loop
    await eventually(handling.done)
    assert fixture.host.limits.overdue() == 0


async def test_one_message_may_run_twice_at_once_within_its_limits() -> None:
    """Two agent types of one process may subscribe to one topic."""
    fixture = HostFixture(max_runtime=600)
    both = [fixture.host.handle(fixture.delivery(Note(text="add"))) for _ in range(2)]
    outcomes = await asyncio.gather(*both)
    assert [type(one) for one in outcomes] == [Commit, Commit]
    assert fixture.host.limits.board[0] == 0.0


async def test_a_handler_that_was_fenced_is_given_back() -> None:
    """No attempt, no error for who asked: another worker makes the outcome."""
    fixture = HostFixture(max_attempts=1)
    fixture.transport.is_fenced = True
    for delivery in (
        fixture.delivery(Note(text="once")),
        fixture.delivery(Ask(text="once"), head=request_head(NOW + 1000)),
    ):
        assert isinstance(await fixture.host.handle(delivery), Release)
    assert fixture.host.failed == 0
    assert {fence.held for fence in fixture.transport.fences if fence} == {b"worker topic:work 5-0"}


async def test_two_runs_of_one_request_are_cancelled_and_end_each_for_itself() -> None:
    """One goes on although its worker lost the lease, and the other is its next run in this process."""
    fixture = HostFixture()
    head = head_of(EVENT._replace(kind="request", reply_to="p1", deadline=NOW + 1000, cancellable=True))
    runs = [
        asyncio.ensure_future(fixture.host.handle(fixture.delivery(Ask(text="hang"), head=head)))
        for _ in range(2)
    ]
    await eventually(lambda: len(Worker.contexts) == 2)
    fixture.host.cancel("m1")
    outcomes = await asyncio.wait_for(asyncio.gather(*runs), 10)
    assert [isinstance(outcome, Commit) and outcome.reply is not None for outcome in outcomes] == [True, True]


async def test_a_worker_that_is_told_to_end_ends_the_handler() -> None:
    fixture = HostFixture()
    delivery = fixture.delivery(Note(text="hang"))
    handling = asyncio.ensure_future(fixture.host.handle(delivery))
    await eventually(lambda: Worker.contexts)
    cast("Mailbox", delivery.mailbox).ended = True
    handling.cancel("released")
    with pytest.raises(asyncio.CancelledError):
        await handling
    assert fixture.live().agent.state.done == []
    assert current.get() is None
