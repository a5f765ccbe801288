"""Handlers that go on although their worker lost its lease, and although they were told to end: none of it counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from callboard import AgentId, ClosureContext, MessageContext, RedisAgentRuntime, TopicId
from callboard.broker.errors import FencedError
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask, Note, Runtimes, closure, letters, listener, stored


async def _outlast(event: asyncio.Event) -> None:
    """Waits for an event, and to be cancelled, which it ignores."""
    is_cancelled = False
    while not (event.is_set() and is_cancelled):
        try:
            await event.wait()
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            is_cancelled = True


async def _reap(runtime: RedisAgentRuntime, type: str) -> None:
    """Ends the worker that runs this type, as when its lease is over; nobody is charged with an attempt."""
    transport = runtime.transport
    (worker,) = set(await transport.admin.command("HVALS", transport.keys.of(f"busy:{type}")))
    assert await transport.admin.run("leave", ("", "1", worker)) == 1


class Zombie:
    """A handler whose first run goes on after another one has committed.

    Attributes:
        paused: the first run stands still.
        refused: what it was refused, by what it tried.
        go_on: it tries now.
    """

    def __init__(self) -> None:
        self.paused, self.go_on = asyncio.Event(), asyncio.Event()
        self.refused: list[str] = []
        self.mails: list[str] = []
        self.runs = 0

    async def mail(self, text: str) -> str:
        self.mails.append(text)
        return text

    async def work(self, agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        self.runs += 1
        await ctx.once("first", self.mail, "first")
        if self.runs > 1:
            await self._try(agent, ctx)
            return
        self.paused.set()
        await _outlast(self.go_on)
        for what in ("charge", "mail", "recorded", "note", "chosen"):
            with pytest.raises(FencedError):
                await self._try(agent, ctx, what)
            self.refused.append(what)
        raise FencedError("as the last of them")

    async def _try(self, agent: ClosureContext, ctx: MessageContext, only: str = "") -> None:
        if only in ("charge", ""):
            await agent.send_message(Ask(text="charge"), AgentId("till", "a"))
        if only in ("mail", ""):
            await ctx.once("mail", self.mail, "second")
        if only == "recorded":
            await ctx.once("first", self.mail, "first")
        if only in ("note", ""):
            await agent.publish_message(Note(text="now"), TopicId("news", "a"), now=True)
        if only in ("chosen", ""):
            await agent.send_message(Ask(text="chosen"), AgentId("till", "a"), message_id=f"order-{only}")


@pytest.fixture
async def zombie() -> AsyncIterator[Zombie]:
    """It ends with the test, also when that fails: nothing else would end it."""
    made = Zombie()
    yield made
    made.go_on.set()


async def test_nothing_that_it_sends_or_records_counts(runtimes: Runtimes, zombie: Zombie) -> None:
    charged: list[str] = []

    async def till(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        charged.append(message.text)
        return Answer()

    keeper, worker, other = [await runtimes.started() for _ in range(3)]
    for runtime in (worker, other):
        runtime.add_message_types([Answer])
    await closure(keeper, "till", till)
    heard = await listener(keeper, "listener", "news")
    await closure(worker, "payer", zombie.work, "work")
    await keeper.publish_message(Note(), TopicId("work", "a"))
    await zombie.paused.wait()
    await closure(other, "payer", zombie.work, "work")
    await _reap(keeper, "payer")
    await eventually(lambda: worker.handled + other.handled == 1)
    zombie.go_on.set()
    await eventually(lambda: len(zombie.refused) == 5, what=lambda: zombie.refused)
    await keeper.stop_when_idle()
    assert (charged, zombie.mails) == (["charge", "chosen"], ["first", "second"])
    assert [one.text for one in heard] == ["now"]
    assert await letters(keeper, "payer") == []
    assert zombie.runs == 2, "being refused is no failure that would be tried again"
    assert await stored(keeper, "once:", "call:") == ["call:order-"]
