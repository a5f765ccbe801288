"""Keys for effects that have their own idempotency, and records of `ctx.once` beyond the attempts of one delivery."""

from __future__ import annotations

import asyncio

from callboard import ClosureContext, MessageContext, TopicId
from callboard.broker.redis.operations import deadletters
from tests.helpers.eventually import eventually
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


async def test_entries_by_hand_with_one_entry_id_have_records_and_keys_of_their_own(
    runtimes: Runtimes,
) -> None:
    """Two people add a message at the same time, each to another topic, and give it no id."""
    paid: list[str] = []
    receipts: dict[str, str] = {}
    keys: list[str] = []
    both = asyncio.Barrier(2)

    async def pay(text: str) -> str:
        paid.append(text)
        return f"receipt of {text}"

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        keys.append(ctx.idempotency_key("pay"))
        receipts[agent.id.key] = await ctx.once("pay", pay, agent.id.key)
        await both.wait()

    runtime = await runtimes.started()
    await closure(runtime, "worker", work, "visits", "orders")
    add, of = runtime.transport.admin.command, runtime.transport.keys.of
    for stream, key in (("topic:visits", "ada"), ("topic:orders", "bob")):
        await add("XADD", of(stream), "9000000000000-1", "type", "Note", "key", key, "body", "{}")
    await eventually(lambda: runtime.handled == 2)
    await runtime.stop_when_idle()
    assert sorted(paid) == ["ada", "bob"]
    assert receipts == {"ada": "receipt of ada", "bob": "receipt of bob"}
    assert len(set(keys)) == 2


async def test_a_replayed_message_by_hand_keeps_its_recorded_steps(runtimes: Runtimes) -> None:
    """Its letter has the id that its worker gave it, so that the record is found."""
    paid: list[str] = []
    ids: set[str] = set()

    async def pay() -> None:
        paid.append("x")

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        ids.add(ctx.message_id)
        await ctx.once("pay", pay)
        if len(paid) == 1 and not is_mended:
            raise LookupError("broken")

    is_mended = False
    runtime = await runtimes.started(settings={"max_attempts": 1})
    await closure(runtime, "worker", work, "work")
    transport = runtime.transport
    await transport.admin.command("XADD", transport.keys.of("topic:work"), "*", "type", "Note", "body", "{}")
    await eventually(lambda: runtime.failed)
    is_mended = True
    await runtime.stop_when_idle()
    assert [letter["id"] for letter in await letters(runtime, "worker")] == list(ids)
    await deadletters.replay(transport, "worker", None)
    runtime.start()
    await runtime.stop_when_idle()
    assert (paid, len(ids)) == (["x"], 1)


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
