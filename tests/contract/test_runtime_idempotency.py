"""Keys for effects that have their own idempotency, and records of `ctx.once` beyond the attempts of one delivery."""

from __future__ import annotations

from callboard import ClosureContext, MessageContext, TopicId
from callboard.broker.redis.operations import deadletters
from tests.helpers.runtimes import Note, Runtimes, closure, letters


async def test_keys_are_the_same_in_every_attempt_and_differ_by_type_and_message(runtimes: Runtimes) -> None:
    keys: dict[tuple[str, str], set[str]] = {}

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        keys.setdefault((agent.id.type, message.text), set()).add(ctx.idempotency_key("pay"))
        if ctx.attempt < 3:
            raise RuntimeError("again")

    runtime = await runtimes.started()
    for name in ("one", "two"):
        await closure(runtime, name, work, "work")
    for text in ("x", "y"):
        await runtime.publish_message(Note(text=text), TopicId("work", "a"))
    await runtime.stop_when_idle()
    assert {len(found) for found in keys.values()} == {1}
    assert len(set.union(*keys.values())) == 4


async def test_a_replayed_dead_letter_has_its_key_and_its_recorded_steps(runtimes: Runtimes) -> None:
    paid: list[str] = []
    keys: set[str] = set()
    is_broken = True

    async def pay(text: str) -> str:
        paid.append(text)
        return text

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        keys.add(ctx.idempotency_key("pay"))
        await ctx.once("pay", pay, message.text)
        if is_broken:
            raise LookupError("broken")

    runtime = await runtimes.started()
    await closure(runtime, "worker", work, "work")
    await runtime.publish_message(Note(text="x"), TopicId("work", "a"))
    await runtime.stop_when_idle()
    assert len(await letters(runtime, "worker")) == 1
    is_broken = False
    await deadletters.replay(runtime.transport, "worker", None)
    runtime.start()
    await runtime.stop_when_idle()
    assert await letters(runtime, "worker") == []
    assert (paid, len(keys)) == (["x"], 1)
