from __future__ import annotations

import asyncio
from importlib import resources

import pytest

from callboard.broker import BrokerSettings
from callboard.broker.intake import PORTION
from callboard.broker.redis.assembly import take_constants
from tests.helpers.eventually import eventually
from tests.helpers.lanes import Work, entry, working

LOOK = 0.02
SHARE = BrokerSettings().prefetch // BrokerSettings().concurrency


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.broker.intake.LOOK_AT_QUEUES_EVERY", LOOK)


def offer_hot(work: Work, count: int = 200, others: int = 20) -> list[str]:
    """Many messages for one agent whose handlers wait, then one for each of some others."""
    hot = [f"h{n}" for n in range(count)]
    work.host.gate(*hot)
    work.offer(*(entry("hot", body) for body in hot), *(entry(f"k{n}", f"o{n}") for n in range(others)))
    return hot


async def others_are_done(work: Work, others: int = 20) -> None:
    bodies = {f"o{n}" for n in range(others)}
    await eventually(lambda: bodies <= set(work.lane.committed), what=lambda: work.lane.calls[-5:])


async def test_an_agent_with_a_long_queue_does_not_keep_the_worker_from_others() -> None:
    async with working() as work:
        hot = offer_hot(work)
        await others_are_done(work)
        assert [body for body in work.host.started if body in hot] == ["h0"], "it has not even ended"
        assert len(work.lane.held) == SHARE, "so many of it are kept"
        work.host.let(*hot)
        await eventually(lambda: len(work.lane.committed) == 220)
        assert [body for body in work.lane.committed if body in hot] == hot


async def test_what_goes_back_does_so_once_and_comes_in_portions() -> None:
    async with working() as work:
        hot = offer_hot(work)
        await others_are_done(work)
        returned = list(work.lane.returned)
        assert returned == hot[SHARE : SHARE + len(returned)], "in its order"
        work.host.let(*hot)
        await eventually(lambda: len(work.lane.committed) == 220)
        assert work.lane.returned == returned


async def test_the_queues_of_many_agents_leave_room_for_others() -> None:
    async with working() as work:
        names = [f"hot{n}" for n in range(40)]
        hot = [f"{name}/{n}" for name in names for n in range(20)]
        work.host.gate(*hot)
        work.offer(*(entry(body.partition("/")[0], body) for body in hot), entry("k0", "o0"))
        await others_are_done(work, 1)
        assert {body for body in work.host.started if body in hot} == {f"{name}/0" for name in names}
        work.host.let(*hot)
        await eventually(lambda: len(work.lane.committed) == len(hot) + 1)


async def test_where_memory_bounds_what_is_held_less_is_kept_of_each() -> None:
    async with working() as work:
        hot = [f"h{n}" for n in range(20)]
        work.host.gate(*hot)
        large = [entry("hot", body, size=1024 * 1024) for body in hot]
        work.offer(*large, entry("k0", "o0"))
        await others_are_done(work, 1)
        assert work.lane.most_held <= 17
        assert len(work.lane.held) == 1
        work.host.let(*hot)
        await eventually(lambda: len(work.lane.committed) == 21)


async def test_what_ends_soon_stays() -> None:
    async with working() as work:
        work.offer(*(entry("hot", f"h{n}") for n in range(2000)))
        await eventually(lambda: len(work.lane.committed) == 2000)
        assert work.lane.returned == []


async def test_nothing_goes_back_while_there_is_room_or_no_place_is_idle() -> None:
    async with working(concurrency=1) as work:
        hot = [f"h{n}" for n in range(30)]
        work.host.gate(*hot)
        work.offer(*(entry("hot", body) for body in hot))
        await work.runs("h0")
        await asyncio.sleep(5 * LOOK)
        assert work.lane.returned == [], "no place is idle"
    async with working() as work:
        work.host.gate(*hot)
        work.offer(*(entry("hot", body) for body in hot))
        await work.holds(30)
        await asyncio.sleep(5 * LOOK)
        assert work.lane.returned == [], "there is room"


def test_the_server_hands_over_as_much_as_the_worker_expects() -> None:
    take = (resources.files("callboard.broker.redis") / "lua" / "turn" / "take.lua").read_text("utf-8")
    assert take_constants(take)[1]["HANDED_OVER"] == str(PORTION)


async def test_after_one_agent_it_looks_again_soon_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.broker.intake.LOOK_AT_QUEUES_EVERY", 3600.0)
    async with working() as work:
        hot = [f"{name}/{n}" for name in ("hot1", "hot2", "hot3") for n in range(150)]
        work.host.gate(*hot)
        work.offer(*(entry(body.partition("/")[0], body) for body in hot), entry("k0", "o0"))
        await work.holds(100)
        fairness = work.consumer._intake._fairness
        fairness._look()
        fairness._look()
        await others_are_done(work, 1)
        work.host.let(*hot)
        await eventually(lambda: len(work.lane.committed) == len(hot) + 1)
