"""Forgetting a key: nothing of it is found any more, and nothing of any other key is touched."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from callboard import (
    AgentId,
    Log,
    MessageContext,
    RedisAgentRuntime,
    RoutedAgent,
    TopicId,
    TypeSubscription,
    event,
)
from callboard.broker.errors import ConnectionLostError
from callboard.broker.redis.operations import forgetting
from callboard.broker.redis.operations.conversations import conversations, utterances
from callboard.broker.redis.operations.deadletters import list_letters
from callboard.broker.redis.operations.forgetting import KeyBusyError, find, forget, named_in
from callboard.broker.redis.operations.repair import find as faults
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Note, Runtimes

GONE = "zo\u00eb/17:*?[a] b"
OTHERS = ("ada", f"{GONE}1", GONE[:-1])


class Kept(BaseModel):
    """What an agent has seen."""

    thread: Log[str] = Log()
    count: int = 0


class Clerk(RoutedAgent[Kept]):
    """Writes down what it gets. What begins with `ask` asks a person, with `never` fails, with `hold` waits for the test."""

    release: ClassVar[asyncio.Event]

    @event
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        if message.text.startswith("ask"):
            await ctx.once("looked up", self._look_up)
            await ctx.ask(f"May I, for {self.id.key}?")
        if message.text.startswith("never"):
            raise ValueError(self.id.key)
        if message.text.startswith("hold"):
            await self.release.wait()
        self.state.count += 1
        self.state.thread.append(f"{self.id.key} {message.text}")

    async def _look_up(self) -> str:
        return f"all of {self.id.key}"


class Desk:
    """Clerks, and who writes to them."""

    def __init__(self, runtimes: Runtimes) -> None:
        self.runtimes = runtimes
        self.publisher = runtimes.new()
        Clerk.release = asyncio.Event()

    async def clerks(self) -> RedisAgentRuntime:
        runtime = self.runtimes.new(settings={"max_attempts": 1})
        for name in ("clerk", "clerk.two"):
            await Clerk.register(runtime, name, lambda: Clerk("writes down"))
            await runtime.add_subscription(TypeSubscription("mails", name))
        runtime.start()
        await runtime.ready()
        return runtime

    async def write(self, *texts: str, keys: tuple[str, ...] = (GONE, *OTHERS)) -> None:
        for text in texts:
            for key in keys:
                await self.publisher.publish_message(Note(text=f"{text} of {key}"), TopicId("mails", key))

    async def begin(self) -> RedisAgentRuntime:
        """There is something of every kind for each key; the worker has ended."""
        await self.publisher.open()
        worker = await self.clerks()
        await self.write("first", "never", "ask", "behind")
        await eventually(self._is_all_there)
        return worker

    async def _is_all_there(self) -> bool:
        letters = await list_letters(self.publisher.transport)
        return len(await self.publisher.inputs.list()) == len(letters) == 2 * (1 + len(OTHERS))

    async def leave_more(self) -> None:
        """Also what nobody has handled yet."""
        await self.write("unread")
        for key in (GONE, *OTHERS):
            await self.publisher.tell(Note(text=key), AgentId("clerk", key), claim_check=True)
            await self.publisher.tell(Note(text=key), AgentId("clerk", key), after=60.0)
            await self.publisher.publish_message(Note(text=key), TopicId("nobody", key), delay=60.0)

    async def counts(self, key: str) -> dict[str, int]:
        return (await find(self.publisher.transport, key)).counts


@pytest.mark.parametrize("is_running", [False, True], ids=["no worker", "a worker"])
async def test_nothing_of_it_is_found_and_all_others_are_as_before(
    runtimes: Runtimes, is_running: bool
) -> None:
    desk = Desk(runtimes)
    worker = await desk.begin()
    if not is_running:
        await worker.close()
        await desk.leave_more()
    transport = desk.publisher.transport
    before = {key: await desk.counts(key) for key in OTHERS}
    assert is_running or all(
        count for kind, count in before["ada"].items() if kind not in ("usage of models", "replies")
    )
    assert (await forget(transport, GONE)).counts == {**before["ada"], "logs": 2, "states": 2}
    assert not any((await desk.counts(GONE)).values())
    assert {key: await desk.counts(key) for key in OTHERS} == before
    assert await named_in(transport, GONE) == {}
    if not is_running:
        worker = await desk.clerks()
        await desk.write("later", keys=(GONE,))

        async def begins_anew() -> bool:
            state = await worker.agent_save_state(AgentId("clerk", GONE))
            return list(state["thread"]) == [f"{GONE} later of {GONE}"]

        await eventually(begins_anew)
        assert [one for one in await faults(transport) if GONE in one.names] == []


async def test_no_trace_of_a_name_is_left(runtimes: Runtimes) -> None:
    desk = Desk(runtimes)
    await desk.publisher.open()
    worker = await desk.clerks()
    name = "customer-\u00e9-4711"
    await desk.write("first", "never", "ask", keys=(name,))
    await eventually(desk.publisher.inputs.list)
    await eventually(lambda: list_letters(desk.publisher.transport))
    await worker.close()
    await desk.publisher.tell(Note(text=name), AgentId("clerk", name), claim_check=True)
    assert await named_in(desk.publisher.transport, name)
    await forget(desk.publisher.transport, name)
    assert await named_in(desk.publisher.transport, name) == {}
    assert await faults(desk.publisher.transport) == ()


async def test_a_handler_that_runs_ends_first(runtimes: Runtimes, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(runtimes)
    await desk.publisher.open()
    worker = await desk.clerks()
    await desk.write("hold", keys=("ada",))
    transport = desk.publisher.transport

    async def runs() -> bool:
        return bool(await transport.admin.command("HGET", transport.keys.of("busy:clerk"), "ada"))

    await eventually(runs)
    monkeypatch.setattr(forgetting, "PATIENCE", 0.05)
    with pytest.raises(KeyBusyError, match="clerk/ada runs a handler"):
        await forget(transport, "ada")
    assert await transport.admin.command("HLEN", transport.keys.of("paused")) == 0
    monkeypatch.setattr(forgetting, "PATIENCE", 10.0)
    forgetting_it = asyncio.ensure_future(forget(transport, "ada"))
    await desk.write("meanwhile", keys=("ada",))
    Clerk.release.set()
    await forgetting_it
    await worker.stop_when_idle()
    assert {name: count for name, count in (await desk.counts("ada")).items() if count} in (
        {},
        {
            "states": 2,
            "logs": 2,
            "messages in topics and inboxes": 1,
        },  # what came in time for the one, or the other
    )


async def test_only_some_types(runtimes: Runtimes) -> None:
    desk = Desk(runtimes)
    worker = await desk.begin()
    await worker.close()
    await forget(desk.publisher.transport, "ada", {"clerk.two"})
    counts = await desk.counts("ada")
    assert (counts["states"], counts["logs"], counts["dead letters"], counts["questions"]) == (1, 1, 1, 1)


async def test_conversations_are_read_from_logs(runtimes: Runtimes) -> None:
    desk = Desk(runtimes)
    worker = await desk.begin()
    await worker.close()
    found = await conversations(desk.publisher.transport, key=GONE)
    assert sorted((one.agent_type, one.key, one.items) for one in found) == [
        ("clerk", GONE, 1),
        ("clerk.two", GONE, 1),
    ]
    said = [each async for each in utterances(desk.publisher.transport, found[0])]
    assert [each.text for each in said] == [f"{GONE} first of {GONE}"]
    assert len(await conversations(desk.publisher.transport, agent_type="clerk")) == 1 + len(OTHERS)


async def test_cut_off_anywhere_it_is_given_again_and_leaves_nothing(
    runtimes: Runtimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(runtimes)
    worker = await desk.begin()
    await worker.close()
    await desk.leave_more()
    transport = desk.publisher.transport
    messages = (await find(transport, GONE)).messages
    command, calls, limit = transport.admin.command, 0, 0

    async def command_or_die(*words: Any) -> Any:
        nonlocal calls
        calls += words[0] in ("UNLINK", "XDEL", "XACK", "ZREM", "HDEL")
        if calls > limit:
            raise ConnectionLostError("lost")
        return await command(*words)

    monkeypatch.setattr(transport.admin, "command", command_or_die)
    while True:
        calls, limit = 0, limit + 1
        try:
            await forget(transport, GONE)
            break
        except ConnectionLostError:
            assert await command("HLEN", transport.keys.of("paused")) == 2, "no handler runs in between"
    monkeypatch.undo()
    assert limit > 6
    assert await named_in(transport, GONE) == {}
    # Of a message that had asked, records and questions would stay for years.
    left = await transport.names_after(transport.keys.prefix)
    assert [name for name in left if name.partition(":")[2].partition(":")[2] in messages] == []
    assert await transport.admin.command("HLEN", transport.keys.of("paused")) == 0
    assert [one for one in await faults(transport) if GONE in one.names] == []
