"""Agents whose state grows: what handlers append is there once, in order, whatever fails and whoever goes on."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from callboard import (
    AgentId,
    CancellationToken,
    Log,
    MessageContext,
    RedisAgentRuntime,
    RoutedAgent,
    TopicId,
    TypeSubscription,
    event,
    rpc,
)
from callboard.broker.errors import ConnectionLostError, StateDamagedError
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask, Note, Runtimes, letters, stored

A = AgentId("keeper", "a")


class Keeper(RoutedAgent):
    """Keeps what it hears."""

    class State(BaseModel):
        """What it heard."""

        total: int = 0
        thread: Log[Note] = Log()

    alive: ClassVar[list[Keeper]] = []
    waits: ClassVar[asyncio.Event] = asyncio.Event()
    go_on: ClassVar[asyncio.Event] = asyncio.Event()

    def __init__(self) -> None:
        super().__init__("keeps")
        self.thread = self.state.thread
        type(self).alive.append(self)

    @event
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        await self._hear(message, ctx.attempt)

    @rpc
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
        if message.text:
            await self._hear(Note(text=message.text), 1)
        return Answer(text=" ".join(note.text for note in self.thread))

    async def _hear(self, note: Note, attempt: int) -> None:
        assert self.thread is self.state.thread
        self.thread.append(note)
        if note.text == "count":
            self.state.total += 1
        if note.text == "trim":
            self.thread.trim(keep=2)
        if note.text == "wait":
            type(self).waits.set()
            await type(self).go_on.wait()
        if note.text == "fail" or (note.text == "retry" and attempt < 3):
            self.thread.trim(keep=1)
            raise RuntimeError("after a change")

    async def close(self) -> None:
        type(self).alive.remove(self)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Keeper.alive = []
    Keeper.waits, Keeper.go_on = asyncio.Event(), asyncio.Event()


async def _register(runtime: RedisAgentRuntime, agent_class: type[Any] = Keeper) -> RedisAgentRuntime:
    await agent_class.register(runtime, "keeper", agent_class)
    await runtime.add_subscription(TypeSubscription("notes", "keeper"))
    return runtime


async def _note(runtime: RedisAgentRuntime, *texts: str) -> None:
    for text in texts:
        await runtime.publish_message(Note(text=text), TopicId("notes", "a"))


async def _asked(runtime: RedisAgentRuntime, text: str = "", **options: Any) -> str:
    answer: Answer = await runtime.send_message(Ask(text=text), A, **options)
    return answer.text


async def _items(runtime: RedisAgentRuntime) -> list[bytes]:
    transport = runtime.transport
    found: list[bytes] = await transport.admin.command(
        "LRANGE", transport.keys.of("log:keeper:a:thread"), 0, -1
    )
    return found


async def test_failures_leave_nothing_and_retries_append_once(runtimes: Runtimes) -> None:
    runtime = await _register(await runtimes.started())
    await _note(runtime, "one", "retry", "fail", "two", "trim", "three", "count")
    with pytest.raises(RuntimeError):
        await _asked(runtime, "fail")
    assert await _asked(runtime, "four") == "two trim three count four"
    await runtime.stop_when_idle()
    assert len(await letters(runtime, "keeper")) == 1
    assert await _items(runtime) == [b'{"text":"%s"}' % one for one in b"two trim three count four".split()]


async def test_processes_take_over_from_each_other(runtimes: Runtimes) -> None:
    first, second = await _register(await runtimes.started()), await _register(await runtimes.started())
    for number in range(40):
        await _note((first, second)[number % 2], str(number))
        if number % 8 == 0:
            await eventually(lambda: not first.unprocessed_messages_count)
    await first.stop_when_idle()
    await second.stop_when_idle()
    second.start()
    heard = (await _asked(second)).split()
    assert sorted(map(int, heard)) == list(range(40))


async def test_a_server_that_is_away_while_it_is_read_costs_no_attempt(
    runtimes: Runtimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await _register(await runtimes.started(settings={"max_attempts": 1}))
    await _note(first, "x")
    await first.stop_when_idle()
    second = await _register(await runtimes.started(settings={"max_attempts": 1}))
    link, away = second.transport.admin, 4
    command = link.command

    async def broken(*arguments: Any, **options: Any) -> Any:
        nonlocal away
        if away and arguments[0] in ("HMGET", "LRANGE"):
            away -= 1
            raise ConnectionLostError("redis://127.0.0.1", "it was killed")
        return await command(*arguments, **options)

    monkeypatch.setattr(link, "command", broken)
    assert await _asked(second, "y") == "x y"
    assert away == 0


async def test_an_idle_agent_comes_back_with_it(runtimes: Runtimes) -> None:
    runtime = await _register(await runtimes.started(settings={"passivate_after": 0.1}))
    await _note(runtime, "x", "y")
    await eventually(lambda: runtime.handled == 2)
    await eventually(lambda: not Keeper.alive)
    assert await _asked(runtime, "z") == "x y z"


async def test_what_is_not_appended_to_is_not_written(runtimes: Runtimes) -> None:
    runtime = await _register(await runtimes.started())
    await _asked(runtime, "one")
    before = await runtime.transport.load_state("keeper", "a")
    await _asked(runtime)
    assert await runtime.transport.load_state("keeper", "a") == before
    assert await _asked(runtime, "two") == "one two"
    after = await runtime.transport.load_state("keeper", "a")
    assert (after.version, after.data) == (before.version + 1, b'{"total":0}')


async def test_a_reset_begins_with_an_empty_one(runtimes: Runtimes) -> None:
    runtime = await _register(await runtimes.started())
    await _asked(runtime, "one")
    await runtime.control.reset(A)
    assert await _asked(runtime, "two") == "two"
    assert await _items(runtime) == [b'{"text":"two"}']


async def test_it_is_saved_loaded_and_seen_by_others(runtimes: Runtimes) -> None:
    first, second = await _register(runtimes.new()), await _register(await runtimes.started())
    await _asked(second, "one")
    saved = await first.agent_save_state(A)
    assert saved == {"total": 0, "thread": [{"text": "one"}]}
    await _asked(second, "two")
    await first.agent_load_state(A, {"total": 4, "thread": [{"text": "x"}, {"text": "y"}]})
    assert await _asked(second, "z") == "x y z"
    await first.load_state({"keeper/a": saved})
    assert await _asked(second) == "one"


async def test_a_state_that_is_loaded_under_a_handler_wins(runtimes: Runtimes) -> None:
    """The handler runs again, on what was loaded: neither is lost, and nothing is mixed."""
    first, second = await _register(runtimes.new()), await _register(await runtimes.started())
    await _note(second, "one", "wait", "two")
    await Keeper.waits.wait()
    await first.agent_load_state(A, {"thread": [{"text": "loaded"}]})
    Keeper.go_on.set()
    await eventually(lambda: second.handled >= 4)
    assert await _asked(second) == "loaded wait two"
    await second.stop_when_idle()


async def test_a_request_that_is_cancelled_appends_nothing(runtimes: Runtimes) -> None:
    runtime = await _register(await runtimes.started())
    await _asked(runtime, "one")
    token = CancellationToken()
    asking = asyncio.create_task(_asked(runtime, "wait", cancellation_token=token))
    await Keeper.waits.wait()
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    Keeper.go_on.set()
    assert await _asked(runtime, "two") == "one two"


async def test_a_log_that_lost_items_is_an_error_and_no_shorter_log(runtimes: Runtimes) -> None:
    runtime = await _register(await runtimes.started())
    await _asked(runtime, "one")
    await runtime.stop()
    await runtime.transport.admin.command("DEL", runtime.transport.keys.of("log:keeper:a:thread"))
    other = await _register(await runtimes.started())
    with pytest.raises(StateDamagedError, match="has not the 1 items"):
        await _asked(other)
    assert await stored(other, "state:") == ["state:keeper:a"]


async def test_a_list_becomes_a_log_and_not_the_other_way_round(runtimes: Runtimes) -> None:
    class Listing(RoutedAgent):
        """What it was before it had a log."""

        def __init__(self) -> None:
            super().__init__("lists")

        class State(BaseModel):
            """The same as a list."""

            total: int = 0
            thread: list[Note] = []

        @rpc
        async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
            self.state.thread.append(Note(text=message.text))
            return Answer(text=" ".join(note.text for note in self.state.thread))

    older = await _register(await runtimes.started(), Listing)
    await _asked(older, "one")
    await _asked(older, "two")
    await older.stop()
    newer = await _register(await runtimes.started())
    assert await _asked(newer) == "one two"
    assert (await newer.transport.load_state("keeper", "a")).data == b'{"total":0}'
    assert await _asked(newer, "three") == "one two three"
    await newer.stop()
    again = await _register(await runtimes.started(), Listing)
    with pytest.raises(TypeError, match=r"declare it as thread: Log\[...\] again"):
        await _asked(again, "four")
    assert len(await _items(again)) == 3


class Caller(RoutedAgent):
    """Lets in what comes while it waits for another agent."""

    reentrant = True

    class State(BaseModel):
        """What it heard."""

        thread: Log[str] = Log()

    @rpc
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
        self.state.thread.append(f"before {message.text}")
        if message.text in ("outer", "bad"):
            nested = Ask(text="fail" if message.text == "bad" else "inner")
            try:
                await self.send_message(nested, AgentId("back", "a"))
            except RuntimeError:
                self.state.thread.append("failed")
        if message.text == "fail":
            self.state.thread.clear()
            raise RuntimeError("after a change")
        self.state.thread.append(f"after {message.text}")
        return Answer(text=", ".join(self.state.thread))


class Back(RoutedAgent):
    """Asks who asked it."""

    @rpc
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
        answer: Answer = await self.send_message(message, AgentId("caller", "a"))
        return answer


async def test_requests_within_a_handler_append_to_the_same_log(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    await Caller.register(runtime, "caller", lambda: Caller(""))
    await Back.register(runtime, "back", lambda: Back(""))
    answer: Answer = await runtime.send_message(Ask(text="outer"), AgentId("caller", "a"))
    inner = "before outer, before inner, after inner, after outer"
    assert answer.text == inner
    answer = await runtime.send_message(Ask(text="bad"), AgentId("caller", "a"))
    assert answer.text == f"{inner}, before bad, failed, after bad"
    logs = (await runtime.transport.load_state("caller", "a")).logs
    assert len(logs["thread"]) == 7
