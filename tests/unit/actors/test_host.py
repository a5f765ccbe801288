"""The host on its own: deliveries made by hand, outcomes looked at; no server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, cast

import pytest
from pydantic import BaseModel

from actors import AgentId, CancellationToken, MessageContext, RoutedAgent, TopicId, event, rpc
from actors.activation import current
from actors.declaration import AgentSettings
from actors.errors import NoHandlerError
from actors.host import AgentHost
from actors.local_agents import UNKNOWN, LoadState, LocalAgents
from actors.runtime_errors import MaxRuntimeError, register_errors
from broker import BrokerSettings, MessageRegistry
from broker.codec import event_head, request_head
from broker.delivery import Delivery
from broker.errors import DeadlineExceededError, UnknownMessageError
from broker.mailbox import Mailbox
from broker.outcome import Commit, DeadLetter, Retry, Wait
from broker.redis.publisher import Posting
from broker.redis.transport import RedisTransport
from broker.remote_errors import decode_error
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask, Note
from tests.unit.actors.recording import RecordingRuntime

NOW = 1_763_700_000_000


class Transport:
    """What a host asks of a transport."""

    def __init__(self, load_state: LoadState) -> None:
        self.recordings: dict[str, bytes] = {}
        self.load_state = load_state

    def now_ms(self) -> int:
        return NOW

    async def recorded(self, agent_type: str, message_id: str) -> dict[str, bytes]:
        return self.recordings

    async def record(self, agent_type: str, message_id: str, name: str, result: bytes) -> bytes:
        return self.recordings.setdefault(name, result)


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
        if text == "exit":
            raise SystemExit(1)
        if text == "hang":
            await asyncio.Event().wait()
        if text == "cancelled":
            raise asyncio.CancelledError
        if text == "send":
            activation = current.get()
            assert activation is not None
            activation.outgoing.append(Posting("topic:x", 0, ("id", "Note", "a", "", b"", b"{}")))
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


class Rig:
    """A host with one agent type."""

    def __init__(self, **settings: Any) -> None:
        Worker.contexts = []
        register_errors()
        self.agents = LocalAgents(RecordingRuntime())
        self.agents.add_type("worker", Worker, Worker, AgentSettings.of(settings))
        self.registry = MessageRegistry()
        self.registry.register(Note, Ask, Answer)
        self.tokens: dict[str, CancellationToken] = {}
        self.stored: tuple[int, bytes] = (0, b"")
        self.loads = 0
        self.host = AgentHost(
            self.agents,
            self.registry,
            BrokerSettings(max_payload=5000),
            declare=self._declare,
            transport=cast("RedisTransport", Transport(self._load)),
            on_turn=lambda turn: None,
            token_of=self.tokens.get,
        )

    async def _declare(self) -> None: ...

    async def _load(self, agent_type: str, key: str) -> tuple[int, bytes]:
        self.loads += 1
        return self.stored

    def delivery(
        self, message: Any, *, tries: bytes = b"", head: bytes = b"", sender: bytes = b"", **values: bytes
    ) -> Delivery:
        entry = self.registry.entry_for(message)
        delivery = Delivery(
            b"worker",
            values.get("stream", b"topic:work"),
            b"5-0",
            tries,
            values.get("id", b"m1"),
            values.get("type", entry.name.encode()),
            b"a",
            sender,
            b"4",
            head,
            values.get("body", entry.encode(message)),
        )
        delivery.mailbox = Mailbox((b"worker", b"a"))
        delivery.state = b""
        return delivery

    def request(self, text: str = "", deadline: int = NOW + 1000, recorded: bool = False) -> Delivery:
        return self.delivery(
            Ask(text=text), head=request_head("p1", deadline, ("first/a",), recorded), stream=b"inbox:worker"
        )

    def live(self) -> Any:
        return self.agents.entry("worker").live["a"]


def _error(outcome: object) -> BaseException:
    if isinstance(outcome, Wait):
        outcome = outcome.otherwise
    assert isinstance(outcome, Commit | DeadLetter)
    assert outcome.reply is not None
    return decode_error(outcome.reply[6])


async def test_an_event_that_changes_state_and_sends() -> None:
    rig = Rig()
    outcome = await rig.host.handle(rig.delivery(Note(text="send")))
    assert isinstance(outcome, Commit)
    assert outcome.state == (1, b'{"done":["send"]}')
    assert [posting.stream for posting in outcome.outgoing] == ["topic:x"]
    assert (outcome.reply, outcome.once_of) == (None, None)
    assert (rig.host.handled, rig.host.failed) == (1, 0)


async def test_the_context_of_an_event() -> None:
    rig = Rig()
    head = event_head(1, "parent")
    await rig.host.handle(rig.delivery(Note(), head=head, sender=b"boss/b/c", tries=b"2 17 why"))
    (ctx,) = Worker.contexts
    assert (ctx.sender, ctx.topic_id, ctx.is_rpc) == (AgentId("boss", "b/c"), TopicId("work", "a"), False)
    assert (ctx.message_id, ctx.attempt, ctx.deadline) == ("m1", 3, None)


async def test_an_entry_added_by_hand_has_the_id_of_its_entry() -> None:
    rig = Rig()
    await rig.host.handle(rig.delivery(Note(), id=b"", body=b'{"text":"by hand"}'))
    assert [(ctx.message_id, ctx.sender) for ctx in Worker.contexts] == [("5-0", None)]


async def test_a_response() -> None:
    rig = Rig()
    outcome = await rig.host.handle(rig.request("x", recorded=True))
    assert isinstance(outcome, Commit)
    assert outcome.reply is not None
    assert outcome.reply[:6] == ("p1", "m1", "m1", "Answer", "worker/a", b"")
    assert rig.registry.decode("Answer", 1, outcome.reply[6]) == Answer(text="x")
    (ctx,) = Worker.contexts
    assert (ctx.topic_id, ctx.is_rpc, ctx.deadline) == (None, True, (NOW + 1000) / 1000)
    plain = await rig.host.handle(rig.request("x"))
    assert isinstance(plain, Commit)
    assert plain.reply is not None
    assert plain.reply[1] == "", "nobody may ask for it again"


@pytest.mark.parametrize("text", ["fail", "exit", "cancelled"])
async def test_a_failing_event_is_tried_again_then_dead(text: str) -> None:
    rig = Rig(max_attempts=2)
    first = await rig.host.handle(rig.delivery(Note(text=text)))
    assert isinstance(first, Retry)
    last = await rig.host.handle(rig.delivery(Note(text=text), tries=b"1 17 why"))
    assert isinstance(last, DeadLetter)
    assert last.error is not None
    assert "in _do" in last.error.traceback
    assert rig.live().agent.state.done == [], "rolled back"
    assert (rig.host.handled, rig.host.failed) == (0, 1)
    assert isinstance(rig.host.first_error, LookupError | SystemExit | asyncio.CancelledError)


async def test_a_failing_request_is_answered() -> None:
    rig = Rig()
    error = _error(await rig.host.handle(rig.request("fail")))
    assert isinstance(error, LookupError)
    assert rig.host.first_error is None, "it is the caller's"
    assert isinstance(_error(await rig.host.handle(rig.request("object"))), TypeError)
    assert isinstance(_error(await rig.host.handle(rig.request("large"))), ValueError)


async def test_a_request_nobody_handles() -> None:
    rig = Rig()
    head = request_head("p1", NOW + 1000, (), False)
    outcome = await rig.host.handle(rig.delivery(Note(), head=head, stream=b"inbox:worker"))
    assert isinstance(_error(outcome), NoHandlerError)


async def test_a_request_that_is_tried_again_where_its_type_wants_it() -> None:
    rig = Rig(retry_on_request=True, max_attempts=2)
    assert isinstance(await rig.host.handle(rig.request("fail")), Retry)
    last = rig.request("fail")
    last.tries = b"1 17 why"
    assert isinstance(_error(await rig.host.handle(last)), LookupError)


async def test_what_nobody_waits_for_any_more_is_not_begun() -> None:
    rig = Rig()
    late = await rig.host.handle(rig.request("x", deadline=NOW - 1))
    assert isinstance(_error(late), DeadlineExceededError)
    rig.tokens["m1"] = CancellationToken()
    rig.tokens["m1"].cancel()
    await rig.host.handle(rig.request("x"))
    assert Worker.contexts == []
    assert rig.host.handled == 0


async def test_an_agent_does_not_handle_what_it_published_itself() -> None:
    rig = Rig()
    assert await rig.host.handle(rig.delivery(Note(), sender=b"worker/a")) == Commit()
    assert "a" not in rig.agents.entry("worker").live
    await rig.host.handle(rig.delivery(Note(), sender=b"worker/b"))
    assert len(Worker.contexts) == 1


async def test_what_can_not_be_decoded_is_dead_and_a_requester_is_told() -> None:
    rig = Rig()
    outcome = await rig.host.handle(rig.delivery(Note(), type=b"Nobody"))
    assert isinstance(outcome, Wait)
    assert (outcome.message, outcome.version) == ("Nobody", 1)
    assert outcome.otherwise.reason.startswith("decode: ")
    assert outcome.otherwise.reply is None
    asked = rig.request()
    asked.message_type = b"Nobody"
    assert isinstance(_error(await rig.host.handle(asked)), UnknownMessageError)
    broken = await rig.host.handle(rig.delivery(Note(), head=b"\xc1\xc1", body=b"\xc1"))
    assert isinstance(broken, DeadLetter)
    assert rig.host.failed == 3


async def test_a_factory_that_fails_is_a_failure_of_the_message() -> None:
    rig = Rig(max_attempts=1)
    rig.agents.entry("worker").factory = lambda: 1 / 0
    outcome = await rig.host.handle(rig.delivery(Note()))
    assert isinstance(outcome, DeadLetter)
    assert outcome.error is not None
    assert outcome.error.type == "ZeroDivisionError"


# State


async def test_the_state_that_came_along_is_used_and_then_kept_in_memory() -> None:
    rig = Rig()
    first = rig.delivery(Note(text="2"))
    first.state_version, first.state = 1, b'{"done":["1"]}'
    outcome = await rig.host.handle(first)
    assert isinstance(outcome, Commit)
    assert outcome.state == (2, b'{"done":["1","2"]}')
    second = rig.delivery(Note(text="3"))
    second.mailbox, second.state = first.mailbox, b'{"done":["not looked at"]}'
    outcome = await rig.host.handle(second)
    assert isinstance(outcome, Commit)
    assert outcome.state == (3, b'{"done":["1","2","3"]}')
    assert rig.loads == 0


@pytest.mark.parametrize("why", ["unknown", "another version"])
async def test_the_state_is_asked_for_when_it_did_not_come_along(why: str) -> None:
    rig = Rig()
    await rig.host.handle(rig.delivery(Note(text="1")))
    rig.stored = (7, b'{"done":["elsewhere"]}')
    later = rig.delivery(Note(text="2"))
    later.state = None
    later.state_version = 1 if why == "unknown" else 7
    later.state_unknown = why == "unknown"
    outcome = await rig.host.handle(later)
    assert isinstance(outcome, Commit)
    assert outcome.state == (8, b'{"done":["elsewhere","2"]}')
    assert rig.loads == 1


async def test_the_state_of_an_agent_that_was_put_to_sleep_is_asked_for() -> None:
    """It waited in a full worker, handed over without its state, and the agent is made anew when its turn comes."""
    rig = Rig()
    rig.stored = (7, b'{"done":["before"]}')
    handed_over = rig.delivery(Note(text="1"))
    handed_over.state, handed_over.state_version = None, 0
    outcome = await rig.host.handle(handed_over)
    assert isinstance(outcome, Commit)
    assert outcome.state == (8, b'{"done":["before","1"]}')


async def test_a_worker_that_wrote_the_state_itself_does_not_ask() -> None:
    rig = Rig()
    await rig.host.handle(rig.delivery(Note(text="1")))
    later = rig.delivery(Note(text="2"))
    later.state, later.state_version = None, 1
    await rig.host.handle(later)
    assert rig.loads == 0


async def test_after_a_lost_lease_persistent_agents_are_loaded_again() -> None:
    rig = Rig()
    await rig.host.handle(rig.delivery(Note(text="1")))
    instance = rig.live()
    rig.host.fenced(())
    assert rig.agents.entry("worker").live == {}
    rig.agents.entry("worker").factory = None
    rig.agents.entry("worker").live["a"] = instance
    rig.host.fenced(())
    assert rig.live() is instance, "an instance can't be made again"
    assert (instance.version, instance.mailbox) == (UNKNOWN, None)


async def test_a_state_that_did_not_change_is_not_written() -> None:
    rig = Rig()
    outcome = await rig.host.handle(rig.request("x"))
    assert isinstance(outcome, Commit)
    assert outcome.state == (1, b'{"done":["x"]}')
    rig.live().agent._do = lambda text, ctx: asyncio.sleep(0, Answer())
    again = rig.request("y")
    again.mailbox = rig.live().mailbox
    outcome = await rig.host.handle(again)
    assert isinstance(outcome, Commit)
    assert outcome.state is None


async def test_records_of_effects_go_with_the_commit() -> None:
    rig = Rig()
    outcome = await rig.host.handle(rig.delivery(Note(text="once")))
    assert isinstance(outcome, Commit)
    assert outcome.once_of == "m1"


# Time


async def test_a_handler_past_its_limit() -> None:
    rig = Rig(max_runtime=0.02, max_attempts=1)
    outcome = await rig.host.handle(rig.delivery(Note(text="hang")))
    assert isinstance(outcome, DeadLetter)
    assert outcome.error is not None
    assert outcome.error.type == MaxRuntimeError.__name__
    assert rig.host.overdue() == 0


async def test_overdue_is_seen_from_outside() -> None:
    rig = Rig(max_runtime=0.001)
    rig.agents.entry("worker").settings = AgentSettings(max_runtime=0.001)
    handling = asyncio.ensure_future(rig.host.handle(rig.delivery(Note(text="hang"))))
    await asyncio.sleep(0)
    while rig.host.overdue() == 0:
        pass  # as a handler that blocks the event loop
    await eventually(handling.done)
    assert rig.host.overdue() == 0


async def test_a_worker_that_is_told_to_end_ends_the_handler() -> None:
    rig = Rig()
    handling = asyncio.ensure_future(rig.host.handle(rig.delivery(Note(text="hang"))))
    await eventually(lambda: Worker.contexts)
    handling.cancel("released")
    with pytest.raises(asyncio.CancelledError):
        await handling
    assert rig.live().agent.state.done == []
    assert current.get() is None
