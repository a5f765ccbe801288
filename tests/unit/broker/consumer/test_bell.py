from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from callboard.broker.consumer.bell import Bell
from callboard.broker.consumer.interfaces import ConsumedType
from tests.helpers.eventually import eventually
from tests.helpers.lanes import FakeLane, entry, working


async def test_a_bell_that_brought_nothing_makes_it_look_at_every_stream() -> None:
    async with working(idle_poll=0.25) as work:
        await work.quiet()
        assert work.lane.polls == [0.25]
        turns = len(work.lane.calls)
        work.lane.bells.put_nowait("counter")
        await eventually(lambda: len(work.lane.calls) == turns + 1)
        assert not work.lane.calls[-1].scan
        work.lane.bells.put_nowait(None)
        await eventually(lambda: len(work.lane.calls) == turns + 2)
        assert work.lane.calls[-1].scan
        work.lane.bells.put_nowait("")
        await eventually(lambda: len(work.lane.calls) == turns + 3)
        assert work.lane.calls[-1].scan, "when the connection broke, somebody may have added something"


async def test_it_looks_again_when_the_next_timer_is_due() -> None:
    async with working(idle_poll=5.0) as work:
        await work.quiet()
        work.lane.next_due_ms = 1_763_700_000_300
        work.lane.bells.put_nowait("counter")
        await eventually(lambda: len(work.lane.polls) == 2)
        assert work.lane.polls[-1] == pytest.approx(0.3)


async def test_a_token_that_comes_when_it_is_full_is_passed_on() -> None:
    types = (ConsumedType("counter"), ConsumedType("audit"))
    async with working(*types, concurrency=1, prefetch=1) as work:
        await work.quiet()
        work.host.gate("a1")
        work.offer(entry("a", "a1"))
        await work.runs("a1")
        work.lane.bells.put_nowait("audit")
        await eventually(lambda: work.lane.rung)
        assert work.lane.rung == ["audit"], "the bell of the type that it was rung for"
        work.host.let("a1")
        await work.committed("a1")


async def test_a_bell_that_fails_does_not_end_the_listening() -> None:
    async with working() as work:
        await work.quiet()
        heard = work.lane.wait_for_bell
        failed = asyncio.Event()

        async def failing(agent_types: Sequence[str], seconds: float) -> str | None:
            work.lane.wait_for_bell = heard  # type: ignore[method-assign]
            failed.set()
            raise RuntimeError("never expected")

        work.lane.wait_for_bell = failing  # type: ignore[method-assign]
        errors = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        work.lane.bells.put_nowait("counter")
        await failed.wait()
        await eventually(lambda: len(work.lane.polls) == 2)
        work.lane.offer(entry("a", "a1"))
        work.lane.bells.put_nowait("counter")
        await work.committed("a1")


async def test_a_wait_that_is_ended_before_it_began_is_followed_by_another() -> None:
    """A type is added in the very moment in which a worker without types begins to listen."""
    lane, nudged = FakeLane(), asyncio.Event()
    types: dict[str, ConsumedType] = {}
    bell = Bell(lane, types, lambda: True, nudged.set, 5.0)
    bell.listen()
    await bell.listen_anew([])
    types["counter"] = ConsumedType("counter")
    await asyncio.wait_for(nudged.wait(), 5)
    nudged.clear()
    bell.listen()
    lane.bells.put_nowait("counter")
    await asyncio.wait_for(nudged.wait(), 5)
    await asyncio.gather(*bell.end(), return_exceptions=True)
