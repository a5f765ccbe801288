"""A sender that asked for it hears that its message became a dead letter, once, and nobody else does."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from callboard import (
    AgentId,
    ClosureContext,
    MessageContext,
    RedisAgentRuntime,
    RoutedAgent,
    TopicId,
    TypeSubscription,
    event,
)
from callboard.broker.redis.operations.deadletters import replay
from callboard.broker.retry import Buried
from callboard.errors import SettingValueError
from callboard.runtime.execution import run_id, usage_run
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Note, Runtimes, closure, letters

CLERK = AgentId("clerk", "a")
BOSS = AgentId("boss", "b")
Told = list[tuple[Buried, MessageContext]]


class Boss(RoutedAgent):
    """Tells a clerk what is published, and hears what became of it."""

    def __init__(self, told: Told, **options: Any) -> None:
        super().__init__("tells")
        self.told = told
        self.options = options

    @event
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        await self.tell(message, CLERK, **self.options)

    @event
    async def on_buried(self, message: Buried, ctx: MessageContext) -> None:
        self.told.append((message, ctx))


async def refuse(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
    raise LookupError(f"no: {message.text}")


async def boss(runtime: RedisAgentRuntime, **options: Any) -> Told:
    told: Told = []
    await Boss.register(runtime, "boss", lambda: Boss(told, **{"if_buried": True, **options}))
    await runtime.add_subscription(TypeSubscription("news", "boss"))
    return told


async def started(runtimes: Runtimes, **settings: Any) -> RedisAgentRuntime:
    return await runtimes.started(settings=settings, ignore_unhandled_exceptions=True)


async def test_one_whose_handler_fails_for_good(runtimes: Runtimes) -> None:
    runtime = await started(runtimes)
    told = await boss(runtime)
    await closure(runtime, "clerk", refuse)
    await runtime.publish_message(Note(text="Grüße"), TopicId("news", "b"))
    await runtime.stop_when_idle()
    ((buried, ctx),) = told
    (letter,) = await letters(runtime, "clerk")
    assert buried == Buried(letter["id"], "clerk/a", "Note", letter["reason"], letter["error"])
    assert "no: Grüße" in buried.error
    assert (ctx.sender, ctx.topic_id, ctx.is_rpc) == (CLERK, None, False)


@pytest.mark.parametrize("options", [{"if_buried": False}, {}], ids=str)
async def test_one_that_did_not_ask_hears_nothing(runtimes: Runtimes, options: dict[str, Any]) -> None:
    runtime = await started(runtimes)
    told = await boss(runtime)
    await closure(runtime, "clerk", refuse)
    await runtime.tell(Note(), CLERK, sender=BOSS, **options)
    await runtime.stop_when_idle()
    assert len(await letters(runtime, "clerk")) == 1
    assert told == []


async def test_one_that_is_handled_is_not_told(runtimes: Runtimes) -> None:
    async def accept(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        handled.append(message.text)

    handled: list[str] = []
    runtime = await started(runtimes)
    told = await boss(runtime)
    await closure(runtime, "clerk", accept)
    await runtime.publish_message(Note(text="fine"), TopicId("news", "b"))
    await runtime.stop_when_idle()
    assert (handled, told) == (["fine"], [])


async def test_attempts_are_not_told(runtimes: Runtimes) -> None:
    async def fail(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        attempts.append(ctx.attempt)
        raise OSError("again")

    attempts: list[int] = []
    runtime = await started(runtimes, max_attempts=3)
    told = await boss(runtime)
    await closure(runtime, "clerk", fail)
    await runtime.tell(Note(), CLERK, sender=BOSS, if_buried=True)
    await runtime.stop_when_idle()
    assert attempts == [1, 2, 3]
    assert len(told) == 1


async def test_one_that_comes_too_late(runtimes: Runtimes) -> None:
    runtime = runtimes.new(ignore_unhandled_exceptions=True)
    told = await boss(runtime)
    await closure(runtime, "clerk", refuse)
    await runtime.tell(Note(), CLERK, sender=BOSS, if_buried=True, expires_in=0.001)
    await runtime.tell(Note(), CLERK, sender=BOSS, if_buried=False, expires_in=0.001)
    now = runtime.transport.now_ms()
    await eventually(lambda: runtime.transport.now_ms() > now + 5)
    runtime.start()
    await runtime.stop_when_idle()
    ((buried, _),) = told
    assert (buried.reason, buried.error) == ("expired", "")
    assert len(await letters(runtime, "clerk")) == 1


async def test_one_that_nobody_can_read(runtimes: Runtimes) -> None:
    class Stranger(BaseModel):
        """Not known to the clerk."""

    runtime, sender = await started(runtimes), runtimes.new()
    told = await boss(runtime)
    await closure(runtime, "clerk", refuse)
    await sender.tell(Stranger(), CLERK, sender=BOSS, if_buried=True, message_id="m1")
    await eventually(lambda: told)
    await runtime.stop_when_idle()
    ((buried, _),) = told
    assert (buried.type, buried.recipient) == ("Stranger", "clerk/a")


async def test_a_letter_that_is_replayed_and_buried_again_is_told_again(runtimes: Runtimes) -> None:
    runtime = await started(runtimes)
    told = await boss(runtime)
    await closure(runtime, "clerk", refuse)
    await runtime.tell(Note(), CLERK, sender=BOSS, if_buried=True)
    await eventually(lambda: len(told) == 1)
    await replay(runtime.transport, "clerk")
    await eventually(lambda: len(told) == 2)
    await runtime.stop_when_idle()
    assert told[0][0].message_id == told[1][0].message_id
    assert told[0][1].message_id != told[1][1].message_id


async def test_a_sender_of_another_process(runtimes: Runtimes) -> None:
    one, other = await started(runtimes), await started(runtimes)
    told = await boss(one)
    await closure(other, "clerk", refuse)
    for _ in range(3):
        await one.publish_message(Note(), TopicId("news", "b"))
    await eventually(lambda: len(told) == 3)


async def test_a_sender_that_knows_no_such_message_gets_a_letter_of_its_own(runtimes: Runtimes) -> None:
    runtime = await started(runtimes)
    await closure(runtime, "clerk", refuse)
    await closure(runtime, "boss", refuse)
    await runtime.tell(Note(), CLERK, sender=BOSS, if_buried=True)
    await eventually(lambda: runtime.failed >= 2)
    await runtime.stop_when_idle()
    (letter,) = await letters(runtime, "boss")
    assert letter["type"] == "callboard.buried"


async def test_a_sender_that_does_not_exist(runtimes: Runtimes) -> None:
    runtime = await started(runtimes)
    await closure(runtime, "clerk", refuse)
    await runtime.tell(Note(), CLERK, sender=BOSS, if_buried=True)
    await runtime.stop_when_idle()
    assert len(await letters(runtime, "clerk")) == 1
    assert await runtime.transport.names_after(runtime.transport.keys.of("inbox:boss")) == []


async def test_without_a_sender_there_is_nobody_to_tell(runtimes: Runtimes) -> None:
    runtime = await started(runtimes)
    await closure(runtime, "clerk", refuse)
    with pytest.raises(SettingValueError, match="if_buried"):
        await runtime.tell(Note(), CLERK, if_buried=True)


async def test_its_run_goes_along(runtimes: Runtimes) -> None:
    async def hear(agent: ClosureContext, message: Buried, ctx: MessageContext) -> None:
        runs.append(run_id())

    runs: list[str | None] = []
    runtime = await started(runtimes)
    await closure(runtime, "boss", hear)
    await closure(runtime, "clerk", refuse)
    with usage_run("run-7"):
        await runtime.tell(Note(), CLERK, sender=BOSS, if_buried=True)
    await runtime.stop_when_idle()
    assert runs == ["run-7"]
