"""The id of a run travels with its messages, and whatever they lead to draws from one budget."""

from __future__ import annotations

import asyncio

import pytest

from callboard import AgentId, ClosureContext, MessageContext, RedisAgentRuntime, TopicId
from callboard.broker.redis.store import RedisStore
from callboard.models import (
    MeteredChatCompletionClient,
    ReplayChatCompletionClient,
    RuntimeStore,
    UsageLedger,
    UserMessage,
    usage_run,
)
from callboard.models.errors import BudgetExceededError
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask, Note, Runtimes, closure

QUESTION = [UserMessage(content="one two", source="ada")]  # 2 tokens
SHORT = {"max_tokens": 4}
HELPER = AgentId("helper", "a")


async def team(runtimes: Runtimes, seen: list[tuple[str, str | None]]) -> RedisAgentRuntime:
    """A boss that asks a helper, and tells everybody later; each in a runtime of its own."""
    boss, helper = runtimes.new(), runtimes.new()

    async def on_ask(ctx: ClosureContext, message: Ask, context: MessageContext) -> Answer:
        seen.append(("boss", context.run_id))
        await ctx.publish_message(Note(text="later"), TopicId("notes", "a"), delay=0.01)
        await ctx.publish_message(Note(text="now"), TopicId("notes", "a"), now=True)
        await ctx.send_message(message, HELPER)
        return Answer()

    async def help_out(ctx: ClosureContext, message: Ask | Note, context: MessageContext) -> Answer | None:
        seen.append((message.text or "helper", context.run_id))
        return Answer() if isinstance(message, Ask) else None

    await closure(boss, "boss", on_ask)
    await closure(helper, "helper", help_out, "notes")
    with usage_run("of the worker"):  # what it handles belongs to the runs of its messages all the same
        for runtime in (boss, helper):
            runtime.start()
            await runtime.ready()
    return boss


async def test_the_id_travels_with_whatever_is_sent(runtimes: Runtimes) -> None:
    seen: list[tuple[str, str | None]] = []
    runtime = await team(runtimes, seen)

    with usage_run("r1"):
        await runtime.send_message(Ask(), AgentId("boss", "a"))
    await eventually(lambda: len(seen) == 4)
    assert set(seen) == {(who, "r1") for who in ("boss", "helper", "later", "now")}

    seen.clear()
    await runtime.send_message(Ask(), AgentId("boss", "a"))
    await eventually(lambda: len(seen) == 4)
    assert {run for _, run in seen} == {None}


async def test_agents_that_an_agent_asks_draw_from_the_same_budget(runtimes: Runtimes) -> None:
    model = ReplayChatCompletionClient(default="two words")
    model.set_cached_bool_value(False)
    client = MeteredChatCompletionClient(model, UsageLedger(RuntimeStore()))
    asked: list[str] = []

    async def think(ctx: ClosureContext, message: Ask, context: MessageContext) -> Answer:
        asked.append(str(ctx.id))
        await client.create(QUESTION, extra_create_args=SHORT)
        if ctx.id != HELPER:
            await ctx.send_message(message, HELPER)
        return Answer()

    boss, helper = runtimes.new(), runtimes.new()
    await closure(boss, "boss", think)
    await closure(helper, "helper", think)
    for runtime in (boss, helper):
        runtime.start()
        await runtime.ready()
    ledger = UsageLedger(RedisStore(boss.transport.admin))
    await ledger.limit("run:r1", tokens=13)

    async def ask(run: str) -> None:
        with usage_run(run):
            await boss.send_message(Ask(), AgentId("boss", run))

    await ask("r1")  # 4 and 4
    with pytest.raises(BudgetExceededError) as refused:
        await ask("r1")  # 4 of 5, and none for the helper
    assert (refused.value.scope, refused.value.limit, refused.value.needed) == ("run:r1", 13, 6)
    await asyncio.gather(ask("r2"), ask("r3"))
    assert (await ledger.spent("run:r1")).tokens <= 13
    assert (await ledger.spent("run:r2")).requests == 2
    assert (await ledger.spent("agent:helper/a")).requests >= 3
