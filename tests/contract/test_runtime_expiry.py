"""Events that expire: dropped when no handler began with them in time, and told to listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from callboard import AgentType, ClosureContext, MessageContext, TopicId
from callboard.broker.telemetry import Dropped, attach
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Note, Runtimes, closure, letters, listener, stored

TOPIC = TopicId("news", "a")
IN_TIME = 2.0  # seconds within which a handler begins, also on a machine that has much else to do


@pytest.fixture
def dropped() -> Iterator[list[Dropped]]:
    """What this process drops."""
    events: list[Dropped] = []
    detach = attach(lambda event: events.append(event) if isinstance(event, Dropped) else None)
    yield events
    detach()


async def test_what_is_begun_too_late_is_dropped_and_the_others_are_handled(
    runtimes: Runtimes, dropped: list[Dropped]
) -> None:
    runtime = runtimes.new()
    heard = await listener(runtime, "listener", "news")
    await runtime.publish_message(Note(text="stale"), TOPIC, expires_in=0.05, message_id="stale")
    await runtime.publish_message(Note(text="fresh"), TOPIC, expires_in=60)
    await runtime.publish_message(Note(text="for ever"), TOPIC)
    await asyncio.sleep(0.2)
    runtime.start()
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == ["fresh", "for ever"]
    assert [(one.message_id, one.reason) for one in dropped] == [("stale", "expired")]
    assert (runtime.handled, runtime.failed) == (2, 0)
    assert await letters(runtime, "listener") == []


async def test_it_counts_from_when_it_is_due(runtimes: Runtimes, dropped: list[Dropped]) -> None:
    runtime = await runtimes.started()
    heard = await listener(runtime, "listener", "news")
    await runtime.publish_message(Note(text="later"), TOPIC, delay=IN_TIME + 0.1, expires_in=IN_TIME)
    await eventually(lambda: heard)
    assert dropped == []


async def test_what_waits_too_long_behind_a_pause_is_dropped(
    runtimes: Runtimes, dropped: list[Dropped]
) -> None:
    runtime = await runtimes.started()
    heard = await listener(runtime, "listener", "news")
    await runtime.control.pause(AgentType("listener"))
    await runtime.publish_message(Note(text="stale"), TOPIC, expires_in=0.05)
    await asyncio.sleep(0.2)
    await runtime.control.resume(AgentType("listener"))
    await eventually(lambda: dropped)
    assert heard == []


async def test_it_leaves_with_the_commit_of_a_handler_and_its_bytes_go(
    runtimes: Runtimes, dropped: list[Dropped]
) -> None:
    async def pass_on(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        await agent.publish_message(Note(text="x" * 500), TOPIC, expires_in=0.05, claim_check=True)

    runtime = runtimes.new(types=["relay"])
    await closure(runtime, "relay", pass_on, "in")
    await listener(runtime, "listener", "news")
    runtime.start()
    await runtime.publish_message(Note(), TopicId("in", "a"))
    await eventually(lambda: runtime.handled == 1)
    await asyncio.sleep(0.2)
    other = await runtimes.started()
    heard = await listener(other, "listener", "news")
    await eventually(lambda: dropped)
    await other.stop_when_idle()
    assert heard == []
    assert await stored(runtime, "blob") == []


async def test_a_handler_that_began_in_time_may_try_again_later(runtimes: Runtimes) -> None:
    attempts: list[int] = []

    async def fail(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            await asyncio.sleep(IN_TIME + 0.1)  # what it has begun with expires meanwhile
            raise ValueError("the first time")

    runtime = await runtimes.started()
    await closure(runtime, "worker", fail, "news")
    await runtime.publish_message(Note(), TOPIC, expires_in=IN_TIME)
    await eventually(lambda: len(attempts) == 2)
    await runtime.stop_when_idle()
