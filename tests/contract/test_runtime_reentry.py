"""Call chains that come back: refused with an error, or let into the activation that waits."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from callboard import (
    AgentId,
    App,
    ClosureContext,
    MessageContext,
    RedisAgentRuntime,
    RoutedAgent,
    TopicId,
    event,
    rpc,
)
from callboard.broker.errors import NotWaitingError, RequestTimeoutError
from callboard.runtime.errors import DeadlockError
from callboard.runtime.execution import current
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask, Note, Runtimes, closure, letters, listener, stored
from tests.helpers.tails import Tail

Step = Callable[..., Any]


class Boss(RoutedAgent):
    """Asks the helper in its handlers, and counts who asks it."""

    class State(BaseModel):
        """What was done, in order."""

        done: list[str] = []

    attempts: ClassVar[list[int]] = []
    fail: ClassVar[set[str]] = set()

    @event
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        self.attempts.append(ctx.attempt)
        self.state.done.append(f"begin {message.text}")
        answer = await self.send_message(Ask(text=message.text), AgentId("helper", "h"))
        self.state.done.append(f"end {answer.text}")
        if "outer" in self.fail:
            self.fail.discard("outer")
            raise ValueError("the first time")

    @rpc
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
        self.state.done.append(f"asked {message.text}")
        await self.publish_message(Note(text=f"from {message.text}"), TopicId("echo", "e"))
        if "nested" in self.fail:
            raise LookupError("not here")
        if message.text == "deeper":
            await self.send_message(Ask(text="deepest"), AgentId("other", "o"))
        return Answer(text=f"{message.text}!")


class Helper(RoutedAgent):
    """Asks the boss back before it answers."""

    runs: ClassVar[list[str]] = []
    before: ClassVar[Step | None] = None
    after: ClassVar[Step | None] = None

    @rpc
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
        self.runs.append(message.text)
        if Helper.before is not None:
            await Helper.before()
        found = await self.send_message(Ask(text=message.text), AgentId("boss", "b"))
        if Helper.after is not None:
            await Helper.after()
        return Answer(text=f"{found.text}?")


@pytest.fixture(autouse=True)
def forget() -> None:
    Boss.attempts, Boss.fail = [], set()
    Helper.runs, Helper.before, Helper.after = [], None, None


def _app(boss_class: type[Boss] = Boss, **boss: Any) -> App:
    app = App("offices")
    app.agent("boss", topics=["tasks"], reentrant=True, **boss)(boss_class)
    app.agent("helper")(Helper)
    return app


async def _done(runtime: RedisAgentRuntime) -> list[str]:
    state = await runtime.agent_save_state(AgentId("boss", "b"))
    found: list[str] = state["done"]
    return found


async def _nothing_is_left(runtime: RedisAgentRuntime) -> None:
    assert await stored(runtime, "nested:", "once:", "call:", "blob") == []


# Refused


@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("by_event", [False, True])
async def test_a_circle_is_refused_at_once(
    runtimes: Runtimes, number: int, apart: bool, by_event: bool
) -> None:
    names = [f"agent{n}" for n in range(number)]
    errors: list[BaseException] = []

    async def ask_on(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        following = names[(names.index(agent.id.type) + 1) % number]
        try:
            answer: Answer = await agent.send_message(Ask(), AgentId(following, "a"))
        except DeadlockError as error:
            errors.append(error)
            raise
        return answer

    async def begin(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        await ask_on(agent, Ask(), ctx)

    runtime = await runtimes.started()
    for name in names:
        where = await runtimes.started() if apart else runtime
        await closure(
            where, name, begin if by_event and name == names[0] else ask_on, *(["start"] * by_event)
        )
    if by_event:
        await runtime.publish_message(Note(), TopicId("start", "a"))
        await eventually(lambda: letters(runtime, names[0]))
    else:
        with pytest.raises(DeadlockError, match=f"{names[0]}/a asks"):
            await runtime.send_message(Ask(), AgentId(names[0], "a"))
    assert errors


async def test_the_error_says_what_can_be_done(runtimes: Runtimes) -> None:
    assert "reentrant=True" in str(DeadlockError(("a/a", "b/b", "a/a")))


# Let in


@pytest.mark.parametrize("apart", [False, True])
async def test_a_reentrant_agent_is_asked_while_it_waits(runtimes: Runtimes, apart: bool) -> None:
    app = _app()
    runtime = runtimes.of(app, types=["boss"] if apart else None)
    last = runtime
    if apart:
        other = runtimes.of(app, types=["helper"])
        other.start()
        last = await runtimes.started()
    heard = await listener(last, "listener", "echo")
    runtime.start()
    await runtime.publish_message(Note(text="one"), TopicId("tasks", "b"))
    await eventually(lambda: heard)
    await runtime.stop_when_idle()
    assert await _done(runtime) == ["begin one", "asked one", "end one!?"]
    assert [(one.text, one.sender) for one in heard] == [("from one", "boss/b")]
    assert Boss.attempts == [1]
    await _nothing_is_left(runtime)


async def test_what_it_publishes_leaves_with_the_outer_commit(runtimes: Runtimes) -> None:
    go_on = asyncio.Event()
    Helper.after = go_on.wait
    runtime = runtimes.of(_app())
    heard = await listener(runtime, "listener", "echo")
    runtime.start()
    await runtime.publish_message(Note(text="one"), TopicId("tasks", "b"))
    await eventually(lambda: stored(runtime, "nested:"))
    await runtime.publish_message(Note(text="behind"), TopicId("echo", "z"))
    await eventually(lambda: heard)
    assert [one.text for one in heard] == ["behind"]
    go_on.set()
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == ["behind", "from one"]


async def test_an_error_in_it_goes_to_the_asker_and_undoes_what_it_did(runtimes: Runtimes) -> None:
    Boss.fail.add("nested")
    caught: list[BaseException] = []

    class Careful(RoutedAgent):
        """Goes on although the boss failed."""

        @rpc
        async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
            try:
                await self.send_message(message, AgentId("boss", "b"))
            except LookupError as error:
                caught.append(error)
            return Answer(text="anyway")

    app = App("offices")
    app.agent("boss", topics=["tasks"], reentrant=True)(Boss)
    app.agent("helper")(Careful)
    runtime = runtimes.of(app)
    heard = await listener(runtime, "listener", "echo")
    runtime.start()
    await runtime.publish_message(Note(text="one"), TopicId("tasks", "b"))
    await runtime.stop_when_idle()
    assert [str(error) for error in caught] == ["not here"]
    assert await _done(runtime) == ["begin one", "end anyway"]
    assert heard == []
    await _nothing_is_left(runtime)


async def test_an_outer_handler_that_runs_again_has_it_run_again(runtimes: Runtimes) -> None:
    Boss.fail.add("outer")
    runtime = runtimes.of(_app())
    heard = await listener(runtime, "listener", "echo")
    runtime.start()
    await runtime.publish_message(Note(text="one"), TopicId("tasks", "b"))
    await runtime.stop_when_idle()
    assert Boss.attempts == [1, 2]
    assert Helper.runs == ["one"], "its reply was recorded"
    assert await _done(runtime) == ["begin one", "asked one", "end one!?"]
    assert [one.text for one in heard] == ["from one"]
    await _nothing_is_left(runtime)


async def test_what_failed_is_not_run_again(runtimes: Runtimes) -> None:
    Boss.fail = {"outer", "nested"}

    class Careful(RoutedAgent):
        """Lets the boss fail once."""

        @rpc
        async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
            with pytest.raises(LookupError):
                await self.send_message(message, AgentId("boss", "b"))
            Boss.fail.discard("nested")
            return Answer(text="anyway")

    app = App("offices")
    app.agent("boss", topics=["tasks"], reentrant=True)(Boss)
    app.agent("helper")(Careful)
    runtime = runtimes.of(app)
    runtime.start()
    await runtime.publish_message(Note(text="one"), TopicId("tasks", "b"))
    await runtime.stop_when_idle()
    assert Boss.attempts == [1, 2]
    assert await _done(runtime) == ["begin one", "end anyway"]


async def test_the_callee_moves_to_another_process(runtimes: Runtimes) -> None:
    """After the boss answered: the helper's second run gets the recorded reply."""
    arrived = asyncio.Event()

    async def hang() -> None:
        arrived.set()
        await asyncio.Event().wait()

    Helper.after = hang
    app = _app()
    boss, first = runtimes.of(app, types=["boss"]), runtimes.of(app, types=["helper"])
    for runtime in (boss, first):
        runtime.start()
    await boss.publish_message(Note(text="one"), TopicId("tasks", "b"))
    await asyncio.wait_for(arrived.wait(), 10)
    Helper.after = None
    await first.drain(grace=0)
    second = runtimes.of(app, types=["helper"])
    second.start()
    await boss.stop_when_idle()
    assert Helper.runs == ["one", "one"]
    assert await _done(boss) == ["begin one", "asked one", "end one!?"]
    await _nothing_is_left(boss)


async def test_what_came_in_and_was_lost_by_the_server_is_not_run_again(runtimes: Runtimes) -> None:
    """The activation that ran it lives, and is going to commit what it changed; the helper asks it once more."""
    arrived = asyncio.Event()

    async def hang() -> None:
        arrived.set()
        await asyncio.Event().wait()

    app = _app()
    boss = runtimes.of(app, types=["boss"], settings={"idle_poll": 60.0})
    first = runtimes.of(app, types=["helper"])
    await boss.open()
    tail = Tail(boss.transport.admin.command, boss.transport.keys.prefix)
    Helper.before, Helper.after = tail.begins, hang
    for runtime in (boss, first):
        runtime.start()
    await boss.publish_message(Note(text="one"), TopicId("tasks", "b"))
    await asyncio.wait_for(arrived.wait(), 10)
    # Else the boss would begin anew: its turns that found nothing to do are not part of the tail.
    await tail.is_lost(but_calls=True)
    Helper.before = Helper.after = None
    await first.drain(grace=0)
    second = runtimes.of(app, types=["helper"])
    second.start()
    await boss.stop_when_idle()
    assert (Helper.runs, Boss.attempts) == (["one", "one"], [1])
    assert await _done(boss) == ["begin one", "asked one", "end one!?"]
    await _nothing_is_left(boss)


async def _is_answered(runtime: RedisAgentRuntime) -> bool:
    found = await stored(runtime, "once:boss:")
    key = runtime.transport.keys.of(found[0]) if found else ""
    return bool(found) and any(b"!" in name for name in await runtime.transport.admin.command("HKEYS", key))


async def test_the_caller_moves_to_another_process_after_it_answered(runtimes: Runtimes) -> None:
    hangs = asyncio.Event()
    Helper.after = hangs.wait
    app = _app()
    first, helper = runtimes.of(app, types=["boss"]), runtimes.of(app, types=["helper"])
    for runtime in (first, helper):
        runtime.start()
    await first.publish_message(Note(text="one"), TopicId("tasks", "b"))
    await eventually(lambda: _is_answered(first))
    await first.drain(grace=0)
    second = runtimes.of(app, types=["boss"])
    second.start()
    await eventually(lambda: len(Boss.attempts) == 2)
    hangs.set()
    await second.stop_when_idle()
    assert Helper.runs == ["one"]
    assert await _done(second) == ["begin one", "asked one", "end one!?"]
    await _nothing_is_left(second)


async def test_the_caller_moves_to_another_process_before_it_is_asked(runtimes: Runtimes) -> None:
    go_on = asyncio.Event()
    Helper.before = go_on.wait
    app = _app()
    first, helper = runtimes.of(app, types=["boss"]), runtimes.of(app, types=["helper"])
    for runtime in (first, helper):
        runtime.start()
    await first.publish_message(Note(text="one"), TopicId("tasks", "b"))
    await eventually(lambda: Helper.runs)
    await first.drain(grace=0)
    second = runtimes.of(app, types=["boss"])
    second.start()
    await eventually(lambda: len(Boss.attempts) == 2)
    go_on.set()
    await second.stop_when_idle()
    assert Helper.runs == ["one"]
    assert await _done(second) == ["begin one", "asked one", "end one!?"]
    await _nothing_is_left(second)


async def test_three_in_the_circle(runtimes: Runtimes) -> None:
    async def pass_on(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        answer: Answer = await agent.send_message(message, AgentId("helper2", "x"))
        return Answer(text=f"({answer.text})")

    async def ask_back(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        answer: Answer = await agent.send_message(message, AgentId("boss", "b"))
        return answer

    app = App("offices")
    app.agent("boss", topics=["tasks"], reentrant=True)(Boss)
    app.closure("helper")(pass_on)
    app.closure("helper2")(ask_back)
    made = [runtimes.of(app, types=[name]) for name in ("boss", "helper", "helper2")]
    for runtime in made:
        runtime.start()
    await made[0].publish_message(Note(text="one"), TopicId("tasks", "b"))
    await made[0].stop_when_idle()
    assert await _done(made[0]) == ["begin one", "asked one", "end (one!)"]
    await _nothing_is_left(made[0])


async def test_a_nested_request_may_be_within_another(runtimes: Runtimes) -> None:
    async def ask_back(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        answer: Answer = await agent.send_message(message, AgentId("boss", "b"))
        return answer

    app = _app()
    app.closure("other")(ask_back)
    Boss.fail.add("outer")
    runtime = runtimes.of(app)
    runtime.start()
    await runtime.publish_message(Note(text="deeper"), TopicId("tasks", "b"))
    await runtime.stop_when_idle()
    assert await _done(runtime) == ["begin deeper", "asked deeper", "asked deepest", "end deeper!?"]
    assert Boss.attempts == [1, 2]
    await _nothing_is_left(runtime)


class Counter(RoutedAgent):
    """Counts down by asking itself, as programs for AutoGen do."""

    reentrant = True

    @rpc
    async def on_number(self, message: int, ctx: MessageContext) -> int:
        if message == 0:
            return 0
        below: int = await self.send_message(message - 1, self.id)
        return below + 1


async def test_an_agent_that_asks_itself(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    await Counter.register(runtime, "counter", Counter)
    assert await runtime.send_message(5, AgentId("counter", "c")) == 5
    with pytest.raises(DeadlockError, match="the limit is 32"):
        await runtime.send_message(100, AgentId("counter", "c"))
    assert await runtime.send_message(30, AgentId("counter", "c")) == 30
    await runtime.stop_when_idle()
    await _nothing_is_left(runtime)


async def test_other_requests_wait_as_ever(runtimes: Runtimes) -> None:
    """Only the chain that the agent waits for comes in; order is kept for the rest."""
    go_on = asyncio.Event()
    Helper.before = go_on.wait
    runtime = runtimes.of(_app())
    runtime.start()
    await runtime.publish_message(Note(text="one"), TopicId("tasks", "b"))
    await eventually(lambda: Helper.runs)
    asking = asyncio.create_task(runtime.send_message(Ask(text="outside"), AgentId("boss", "b")))
    with pytest.raises(RequestTimeoutError):
        await runtime.send_message(Ask(text="hurried"), AgentId("boss", "b"), timeout=0.1)
    assert not asking.done()
    go_on.set()
    assert await asking == Answer(text="outside!")
    await runtime.stop_when_idle()
    assert (await _done(runtime))[:4] == ["begin one", "asked one", "end one!?", "asked outside"]


async def test_who_does_not_wait_any_more_is_not_disturbed(runtimes: Runtimes) -> None:
    failed: list[BaseException] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    class Late(RoutedAgent):
        """Asks back when nobody waits any more."""

        @rpc
        async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
            begun.set()
            await go_on.wait()
            try:
                await self.send_message(message, AgentId("boss", "b"))
            except Exception as error:
                failed.append(error)
                raise
            return Answer()

    class Hurried(Boss):
        """Waits only until its request has begun."""

        @event
        async def on_note(self, message: Note, ctx: MessageContext) -> None:
            asking = asyncio.create_task(self.send_message(Ask(), AgentId("helper", "h")))
            await begun.wait()
            asking.cancel()
            await asyncio.wait({asking})
            self.state.done.append("went on")

    app = App("offices")
    app.agent("boss", topics=["tasks"], reentrant=True)(Hurried)
    app.agent("helper")(Late)
    runtime = runtimes.of(app)
    runtime.start()
    await runtime.publish_message(Note(text="one"), TopicId("tasks", "b"))
    await eventually(lambda: _has_gone_on(runtime))
    go_on.set()
    await eventually(lambda: failed)
    assert isinstance(failed[0], NotWaitingError)
    await runtime.stop_when_idle()
    assert await _done(runtime) == ["went on"]


async def _has_gone_on(runtime: RedisAgentRuntime) -> bool:
    return bool(await stored(runtime, "state:boss"))


async def test_many_nested_requests_for_one_request(runtimes: Runtimes) -> None:
    async def ask_back(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        for start in range(0, 130, 26):
            asks = [agent.send_message(Ask(text=str(start + n)), AgentId("boss", "b")) for n in range(26)]
            await asyncio.gather(*asks)
        return Answer(text="all")

    app = App("offices")
    app.agent("boss", topics=["tasks"], reentrant=True)(Boss)
    app.closure("helper")(ask_back)
    Boss.fail.add("outer")
    runtime = runtimes.of(app)
    heard = await listener(runtime, "listener", "echo")
    runtime.start()
    await runtime.publish_message(Note(text="one"), TopicId("tasks", "b"))
    await runtime.stop_when_idle()
    assert await letters(runtime, "boss") == []
    done = await _done(runtime)
    assert (done[0], done[-1]) == ("begin one", "end all")
    assert sorted(done[1:-1]) == sorted(f"asked {n}" for n in range(130))
    assert len(heard) == 130
    await _nothing_is_left(runtime)


async def test_large_nested_requests_and_replies(runtimes: Runtimes) -> None:
    large = "x" * 5000
    got: list[str] = []

    async def ask_back(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        answer: Answer = await agent.send_message(Ask(text=large), AgentId("boss", "b"), claim_check=True)
        got.append(answer.text)
        return Answer(text="short")

    app = App("offices")
    app.agent("boss", topics=["tasks"], reentrant=True)(Boss)
    app.closure("helper")(ask_back)
    runtime = runtimes.of(app, settings={"max_payload": 2000, "claim_check": True})
    runtime.start()
    await runtime.publish_message(Note(text="one"), TopicId("tasks", "b"))
    await runtime.stop_when_idle()
    assert got == [large + "!"]


async def test_a_nested_request_has_the_idempotency_keys_of_its_agent_type(runtimes: Runtimes) -> None:
    """They depend on namespace and agent type, as those of any other message."""
    keys: list[str] = []

    class Buyer(Boss):
        @rpc
        async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
            parts = f"{runtime.settings.namespace}/boss\0{ctx.message_id}\0pay"
            keys.extend((ctx.idempotency_key("pay"), hashlib.sha256(parts.encode()).hexdigest()[:32]))
            return Answer()

    runtime = runtimes.of(_app(Buyer))
    runtime.start()
    await runtime.publish_message(Note(text="x"), TopicId("tasks", "b"))
    await runtime.stop_when_idle()
    assert len(keys) == 2
    assert keys[0] == keys[1]


async def test_what_a_nested_request_settles_at_its_end_leaves_with_the_commit(runtimes: Runtimes) -> None:
    """As client memories do, which send what a handler changed when it has succeeded."""

    class Saver(Boss):
        @rpc
        async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
            activation = current.get()
            assert activation is not None
            activation.before_commit.append(self._settle)
            return Answer()

        async def _settle(self) -> None:
            await self.publish_message(Note(text="settled"), TopicId("echo", "e"))

    runtime = runtimes.of(_app(Saver))
    heard = await listener(runtime, "listener", "echo")
    runtime.start()
    await runtime.publish_message(Note(text="x"), TopicId("tasks", "b"))
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == ["settled"]
