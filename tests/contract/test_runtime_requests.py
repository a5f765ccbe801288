"""Requests: responses, errors of every kind, time limits, what is repeated and what is not, cancellation."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from callboard import (
    AgentId,
    App,
    CantHandleException,
    ClosureContext,
    MessageContext,
    RedisAgentRuntime,
    RoutedAgent,
    TopicId,
    TypeSubscription,
    event,
    rpc,
)
from callboard.broker.envelope import Envelope, Posting
from callboard.broker.errors import EncodeError, PayloadTooLargeError, RemoteError, RequestTimeoutError
from callboard.broker.mailbox import ConsumedType, Pull
from callboard.broker.redis.library import Mark
from callboard.broker.remote_errors import register_error
from callboard.runtime.errors import DeadlockError
from tests.helpers.commits import Done
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask, Note, Runtimes, closure, letters


class UnknownHereError(Exception):
    """An error of an application that nobody registered."""


class ShopError(Exception):
    """An error of an application that is registered."""

    def __init__(self, item: str, left: int) -> None:
        super().__init__(item, left)
        self.item = item
        self.left = left


async def _failing(runtime: RedisAgentRuntime, error: BaseException) -> None:
    async def fail(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        raise error

    await closure(runtime, "failing", fail)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad value", 7),
        KeyError("name"),
        FileNotFoundError(2, "No such file", "x.txt"),
        ZeroDivisionError("division by zero"),
        CantHandleException("not mine"),
        PayloadTooLargeError(2000, 1000),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_known_error_comes_back_as_itself(runtimes: Runtimes, error: Exception) -> None:
    runtime = await runtimes.started()
    await _failing(runtime, error)
    with pytest.raises(type(error)) as caught:
        await runtime.send_message(Ask(), AgentId("failing", "a"))
    assert type(caught.value) is type(error)
    assert str(caught.value) == str(error)
    assert vars(caught.value).items() >= vars(error).items()
    assert "fail" in "".join(caught.value.__notes__), "where it was raised is a note"
    await runtime.stop_when_idle()


async def test_a_registered_error_has_its_fields(runtimes: Runtimes) -> None:
    register_error(ShopError)
    runtime = await runtimes.started()
    await _failing(runtime, ShopError("pear", 3))
    with pytest.raises(ShopError) as caught:
        await runtime.send_message(Ask(), AgentId("failing", "a"))
    assert (caught.value.item, caught.value.left) == ("pear", 3)


async def test_an_unknown_error_says_what_it_was(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    await _failing(runtime, UnknownHereError("no idea"))
    with pytest.raises(RemoteError, match="no idea") as caught:
        await runtime.send_message(Ask(), AgentId("failing", "a"))
    assert caught.value.type_name.endswith("UnknownHereError")
    assert "in fail" in caught.value.traceback


@pytest.mark.parametrize(
    "error", [SystemExit(3), asyncio.CancelledError("mine"), GeneratorExit(), StopAsyncIteration()]
)
async def test_an_error_that_ends_things_elsewhere_ends_nothing_here(
    runtimes: Runtimes, error: BaseException
) -> None:
    runtime = await runtimes.started()
    await _failing(runtime, error)
    for _ in range(2):
        with pytest.raises((RemoteError, RuntimeError)):
            await runtime.send_message(Ask(), AgentId("failing", "a"))
    await runtime.stop_when_idle()


async def test_an_event_whose_handler_raises_cancelled_fails_like_any_other(runtimes: Runtimes) -> None:
    async def fail(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        inner = asyncio.ensure_future(asyncio.Event().wait())
        inner.cancel()
        await inner

    runtime = await runtimes.started()
    await closure(runtime, "failing", fail, "news")
    await runtime.publish_message(Note(), TopicId("news", "a"))
    await runtime.stop_when_idle()
    (letter,) = await letters(runtime, "failing")
    assert letter["error"].startswith("CancelledError")
    assert letter["attempts"] == "3"


@pytest.mark.parametrize("waits", [True, False])
async def test_a_handler_that_cancels_its_own_task_fails_and_harms_nobody_else(
    runtimes: Runtimes, waits: bool
) -> None:
    handled: list[str] = []

    async def cancel(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        handled.append(agent.id.key)
        if agent.id.key == "bad":
            cast("asyncio.Task[None]", asyncio.current_task()).cancel()
        if waits:
            await asyncio.sleep(0.01)

    runtime = await runtimes.started()
    await closure(runtime, "failing", cancel, "news")
    for key in ("bad", "a", "b"):
        await runtime.publish_message(Note(), TopicId("news", key))
        await asyncio.sleep(0.05)
    await runtime.stop_when_idle()
    assert sorted(handled) == ["a", "b", *["bad"] * (3 if waits else 1)]
    assert [letter["attempts"] for letter in await letters(runtime, "failing")] == ["3"] * waits


async def test_an_agent_that_can_not_be_made_fails_its_message_however_it_fails(runtimes: Runtimes) -> None:
    class Leaving(RoutedAgent):
        def __init__(self) -> None:
            raise SystemExit(3)

        @event
        async def on_note(self, message: Note, ctx: MessageContext) -> None: ...

    runtime = await runtimes.started()
    await Leaving.register(runtime, "leaving", Leaving)
    await runtime.add_subscription(TypeSubscription("news", "leaving"))
    await runtime.publish_message(Note(), TopicId("news", "a"))
    await runtime.stop_when_idle()
    (letter,) = await letters(runtime, "leaving")
    assert (letter["reason"], letter["error"]) == ("failed", "SystemExit: 3")


async def test_a_response_that_can_not_be_sent_is_an_error(runtimes: Runtimes) -> None:
    async def answer(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Any:
        return object() if message.text == "object" else Answer(text="x" * 3000)

    runtime = await runtimes.started(settings={"max_payload": 2000})
    await closure(runtime, "clerk", answer)
    with pytest.raises(EncodeError):
        await runtime.send_message(Ask(text="object"), AgentId("clerk", "a"))
    with pytest.raises(PayloadTooLargeError):
        await runtime.send_message(Ask(text="large"), AgentId("clerk", "a"))


async def test_a_failing_request_is_not_retried_and_leaves_no_dead_letter(runtimes: Runtimes) -> None:
    attempts: list[int] = []

    async def fail(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        attempts.append(ctx.attempt)
        raise ValueError("no")

    runtime = await runtimes.started()
    await closure(runtime, "failing", fail)
    with pytest.raises(ValueError, match="no"):
        await runtime.send_message(Ask(), AgentId("failing", "a"))
    await runtime.stop_when_idle()
    assert attempts == [1]
    assert await letters(runtime, "failing") == []


async def test_a_request_is_retried_where_the_type_says_so(runtimes: Runtimes) -> None:
    attempts: list[int] = []
    app = App("retrying")

    @app.closure("failing", retry_on_request=True, max_attempts=4)
    async def fail(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        attempts.append(ctx.attempt)
        if message.text == "permanent":
            raise CantHandleException("never")
        if message.text == "always" or ctx.attempt < 3:
            raise ValueError("not yet")
        return Answer(text="at last")

    runtime = runtimes.of(app)
    runtime.start()
    assert await runtime.send_message(Ask(), AgentId("failing", "a")) == Answer(text="at last")
    assert attempts == [1, 2, 3]
    attempts.clear()
    with pytest.raises(ValueError, match="not yet"):
        await runtime.send_message(Ask(text="always"), AgentId("failing", "a"))
    assert attempts == [1, 2, 3, 4]
    attempts.clear()
    with pytest.raises(CantHandleException):
        await runtime.send_message(Ask(text="permanent"), AgentId("failing", "a"))
    assert attempts == [1]
    await runtime.stop_when_idle()


# What a handler is told


async def test_the_context_of_a_request(runtimes: Runtimes) -> None:
    contexts: list[MessageContext] = []

    async def answer(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        contexts.append(ctx)
        return Answer()

    runtime = await runtimes.started()
    await closure(runtime, "clerk", answer)
    await runtime.send_message(
        Ask(), AgentId("clerk", "a"), sender=AgentId("boss", "b"), message_id="m-1", timeout=5
    )
    (ctx,) = contexts
    assert (ctx.sender, ctx.topic_id, ctx.is_rpc, ctx.message_id) == (AgentId("boss", "b"), None, True, "m-1")
    assert ctx.attempt == 1
    assert ctx.deadline is not None


async def test_deadlines_shrink_on_the_way(runtimes: Runtimes) -> None:
    deadlines: dict[str, float] = {}
    runtime = await runtimes.started()

    class Middle(RoutedAgent):
        """Asks the next one with much more time than it has."""

        @rpc
        async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
            assert ctx.deadline is not None
            deadlines[self.id.type] = ctx.deadline
            if self.id.type == "third":
                return Answer()
            following = {"first": "second", "second": "third"}[self.id.type]
            short = following == "third" and message.text == "short"
            answer: Answer = await runtime.send_message(
                message, AgentId(following, "a"), sender=self.id, timeout=0.5 if short else 100
            )
            return answer

    for name in ("first", "second", "third"):
        await Middle.register(runtime, name, lambda: Middle(""))
    await runtime.send_message(Ask(), AgentId("first", "a"), timeout=5)
    assert deadlines["first"] == deadlines["second"] == deadlines["third"]
    await runtime.send_message(Ask(text="short"), AgentId("first", "a"), timeout=5)
    assert deadlines["third"] < deadlines["first"] - 3


async def test_a_request_that_takes_too_long(runtimes: Runtimes) -> None:
    go_on = asyncio.Event()
    started: list[str] = []

    async def answer(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        started.append(message.text)
        await go_on.wait()
        return Answer()

    runtime = await runtimes.started()
    await closure(runtime, "slow", answer)
    first = asyncio.create_task(runtime.send_message(Ask(text="first"), AgentId("slow", "a")))
    await eventually(lambda: started)
    with pytest.raises(RequestTimeoutError, match="slow/a") as caught:
        await runtime.send_message(Ask(text="too late"), AgentId("slow", "a"), timeout=0.05)
    assert isinstance(caught.value, TimeoutError)
    deadline_for_sure = runtime.transport.now_ms() + 50
    await eventually(lambda: runtime.transport.now_ms() > deadline_for_sure)
    go_on.set()
    await first
    await runtime.stop_when_idle()
    assert started == ["first"], "what nobody waits for any more is not begun"


async def test_a_request_to_a_type_that_nobody_runs_times_out(runtimes: Runtimes) -> None:
    elsewhere = runtimes.new()
    await closure(elsewhere, "clerk", _answer)
    await elsewhere.open()
    runtime = await runtimes.started()
    with pytest.raises(RequestTimeoutError):
        await runtime.send_message(Ask(), AgentId("clerk", "a"), timeout=0.05)


async def test_circular_requests_are_refused(runtimes: Runtimes) -> None:
    async def ask_on(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        following = "second" if agent.id.type == "first" else "first"
        answer: Answer = await agent.send_message(message, AgentId(following, "a"))
        return answer

    runtime = await runtimes.started()
    for name in ("first", "second"):
        await closure(runtime, name, ask_on)
    with pytest.raises(DeadlockError, match="first/a"):
        await runtime.send_message(Ask(), AgentId("first", "a"))
    await runtime.stop_when_idle()


async def _answer(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
    return Answer(text=message.text)


async def test_a_reply_that_nobody_can_ask_for_any_more_leaves_no_record(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    transport = runtime.transport
    await transport.declare({"late": {"max_attempts": 3}}, ())
    request = Envelope("r1", "str", "a", None, 0, b"\xa1x", "request", reply_to="nobody", recorded=True)
    await transport.publisher.post(Posting(request, "inbox:late"))
    lane = transport.lane()
    await lane.join(["late"])
    (delivery,) = (await lane.turn((), Pull([ConsumedType("late")], 1, 0, True, 100))).deliveries
    reply = ("nobody", "r1", "r1", "str", "late/a", b"", b"\xa1y")
    await lane.commit_and_pull([Done(delivery, Mark.COMMIT + Mark.REPLY, reply)], Pull((), 0, 0, False, 100))
    assert await transport.admin.command("XLEN", transport.keys.of("reply:nobody")) == 1
    assert await transport.admin.command("EXISTS", transport.keys.of("call:r1")) == 0
    await lane.leave()
    lane.close()
