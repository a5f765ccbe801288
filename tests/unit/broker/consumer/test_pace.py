from __future__ import annotations

import asyncio

import pytest

from callboard.broker.intake import LATE, Pace
from tests.helpers.eventually import eventually
from tests.helpers.lanes import entry, working

SLOW = 2.5 * LATE


async def test_a_worker_whose_handlers_block_holds_one() -> None:
    async with working(late=LATE) as work:
        work.host.blocks_for = SLOW
        work.offer(*(entry(f"k{n}", f"{n}") for n in range(4)))
        await eventually(lambda: len(work.lane.committed) == 4)
        assert work.lane.most_held == 1


async def test_a_worker_whose_handlers_wait_takes_all_at_once() -> None:
    async with working(late=LATE) as work:
        bodies = [str(n) for n in range(100)]
        work.host.gate(*bodies)
        work.offer(*(entry(body, body) for body in bodies))
        await work.runs(*bodies)
        work.host.let(*bodies)
        await eventually(lambda: len(work.lane.committed) == 100)


async def test_what_waits_behind_a_handler_that_blocked_goes_back() -> None:
    async with working(late=LATE) as work:
        bodies = [f"s{n}" for n in range(8)]
        work.host.gate("s0")
        work.offer(*(entry("same", body) for body in bodies))
        await work.holds(8)
        work.host.blocks_for = SLOW
        work.host.let("s0")
        await eventually(lambda: work.lane.returned)
        begun, returned = len(work.host.started), work.lane.returned
        assert returned == bodies[begun : begun + len(returned)]


@pytest.mark.parametrize(("ended", "late", "width"), [(1, 1.0, 1), (10, 1.9 * LATE, 5), (400, 2 * LATE, 64)])
async def test_the_width_is_what_ends_in_time(
    monkeypatch: pytest.MonkeyPatch, ended: int, late: float, width: int
) -> None:
    now = 100.0
    monkeypatch.setattr("callboard.broker.intake.monotonic", lambda: now)
    pace = Pace(512, lambda: False, lambda: None)
    for doublings in range(6):
        pace.begin()
        await asyncio.sleep(0)
        assert pace.width == 2 ** (doublings + 1)
    pace.begin()
    pace.ended, now = ended, now + late
    await asyncio.sleep(0)
    assert pace.width == width


async def test_a_late_loop_is_noticed_between_turns_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    now, is_busy, wider = 100.0, True, list[int]()
    monkeypatch.setattr("callboard.broker.intake.monotonic", lambda: now)
    pace = Pace(8, lambda: is_busy, lambda: wider.append(pace.width))
    pace.begin()
    await eventually(lambda: pace.width == 8)
    assert wider == [2, 4, 8]
    now, is_busy = now + SLOW, False
    assert pace.blocks_others(8)
    assert not pace.blocks_others(0)
    await eventually(lambda: pace.width == 1)
    pace.end()
    assert not pace.blocks_others(8)
