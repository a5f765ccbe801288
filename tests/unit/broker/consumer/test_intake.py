from __future__ import annotations

import asyncio

import pytest

from callboard.broker import intake
from callboard.broker.intake import PATIENCE, Suspects, WorkLoad, patience
from callboard.broker.mailbox import ConsumedType
from tests.helpers.eventually import eventually
from tests.helpers.lanes import entry, working


@pytest.mark.parametrize("prefetch", [1, 8, 50])
async def test_no_more_is_held_than_prefetch(prefetch: int) -> None:
    async with working(prefetch=prefetch, concurrency=200) as work:
        bodies = [str(n) for n in range(300)]
        work.host.gate(*bodies)
        work.offer(*(entry(body, body) for body in bodies))
        await eventually(lambda: len(work.lane.held) == prefetch)
        work.host.let(*bodies)
        await eventually(lambda: len(work.lane.committed) == 300)
        assert work.lane.most_held == prefetch


@pytest.mark.parametrize(("soon", "again"), [(0.0, {1}), (60.0, {16, 32})], ids=["slow", "fast"])
async def test_what_is_asked_for_grows_while_more_comes_and_begins_again_with_little_work(
    monkeypatch: pytest.MonkeyPatch, soon: float, again: set[int]
) -> None:
    """With what is handled in so many seconds, and never with more than half of what may be held."""
    monkeypatch.setattr(intake, "SOON", soon)
    async with working(prefetch=64) as work:
        await work.quiet()
        turns = len(work.lane.calls)
        work.offer(*(entry(f"k{n}", f"{n}") for n in range(15)))
        await eventually(lambda: len(work.lane.committed) == 15)
        asked = [call.wants["counter"] for call in work.lane.calls[turns:] if call.wants]
        assert asked[:4] == [1, 2, 4, 8]
        await work.quiet()
        turns = len(work.lane.calls)
        work.offer(entry("a", "last"))
        await eventually(lambda: "last" in work.lane.committed)
        assert work.lane.calls[turns].wants["counter"] in again


@pytest.mark.parametrize(("concurrency", "of_type"), [(2, None), (100, 2)], ids=["worker", "type"])
async def test_what_was_handled_in_no_time_may_be_slow_now_and_has_a_place_each(
    monkeypatch: pytest.MonkeyPatch, concurrency: int, of_type: int | None
) -> None:
    """The rest would wait here behind slow handlers while other workers have nothing to do."""
    monkeypatch.setattr(intake, "SOON", 60.0)
    kind = ConsumedType("counter", concurrency=of_type)
    async with working(kind, prefetch=64, concurrency=concurrency) as work:
        work.offer(*(entry(f"k{n}", f"{n}") for n in range(40)))
        await eventually(lambda: len(work.lane.committed) == 40)
        await work.quiet()
        turns = len(work.lane.calls)
        work.offer(entry("a", "last"))
        await eventually(lambda: "last" in work.lane.committed)
        assert work.lane.calls[turns].wants["counter"] <= 2


async def test_types_of_which_something_comes_share_the_room() -> None:
    """Else the first would get all of it, and of a message for both the second hears much later."""
    async with working(*map(ConsumedType, ("counter", "clerk", "idle")), prefetch=64) as work:
        await work.quiet()
        for number in range(80):
            work.offer(entry(f"k{number}", f"a{number}"), entry(f"k{number}", f"b{number}", "clerk"))
        await eventually(lambda: len(work.lane.committed) == 160)
        full = [call.wants for call in work.lane.calls if call.wants.get("counter", 0) >= 8]
        assert {"counter": 16, "clerk": 16, "idle": 16} in full
        assert work.lane.most_held <= 64


async def test_large_bodies_are_taken_in_smaller_numbers() -> None:
    async with working(concurrency=512) as work:
        bodies = [str(n) for n in range(30)]
        work.host.gate(*bodies)
        work.offer(*(entry(body, body, size=2 * 1024 * 1024) for body in bodies))
        await work.runs("0", "1", "2", "3", "4", "5", "6")
        assert work.lane.most_held <= 8, "16 MiB of bodies"
        work.host.let(*bodies)
        await eventually(lambda: len(work.lane.committed) == 30)
        assert work.lane.most_held <= 8


async def test_a_full_worker_is_handed_nothing_and_still_names_its_rate_limits() -> None:
    async with working(prefetch=4) as work:
        work.host.gate("1", "2", "3", "4")
        work.offer(*(entry(body, body) for body in "1234"))
        await work.runs("1", "2", "3", "4")
        work.consumer.nudge()
        full = await work.sees_call(lambda call: not call.wants and call.held == 4)
        assert (full.accept, full.types) == (0, ("counter",))
        work.host.let("1")
        after = await work.sees_call(lambda call: call.done == [("1", "C")])
        assert (after.wants, after.accept) == ({"counter": 1}, 1)


async def test_a_suspect_is_handled_alone() -> None:
    async with working() as work:
        await work.quiet()
        work.host.gate("suspect")
        work.lane.suspects_wait = True
        work.offer(entry("a", "suspect"), entry("b", "b1"))
        await work.runs("suspect")
        work.lane.bells.put_nowait("counter")
        await eventually(
            lambda: work.lane.rung == ["counter"], what="it takes nothing, so others are to hear the bell"
        )
        work.lane.suspects_wait = False
        assert work.host.started == ["suspect"]
        work.host.let("suspect")
        await work.committed("suspect", "b1")


async def test_a_suspect_that_takes_long_does_not_hold_up_the_others_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("callboard.broker.intake.PATIENCE", 0.05)
    async with working() as work:
        await work.quiet()
        work.host.gate("suspect")
        work.lane.suspects_wait = True
        work.offer(entry("a", "suspect"))
        await work.runs("suspect")
        work.lane.suspects_wait = False
        work.offer(entry("b", "b1"))
        await work.committed("b1")
        assert any(call.held == 0 for call in work.lane.calls[-3:]), (
            "the server is to give suspects out as well"
        )
        work.host.let("suspect")
        await work.committed("b1", "suspect")


async def test_a_worker_that_makes_room_for_a_suspect_is_handed_nothing() -> None:
    """What waits behind a busy agent would come after what it holds without end."""
    async with working() as work:
        await work.quiet()
        work.host.gate("b1", "c1")
        work.offer(entry("b", "b1"), entry("c", "c1"))
        await work.runs("b1", "c1")
        asked = len(work.lane.calls)
        work.lane.suspects_wait = True
        work.lane.bells.put_nowait("counter")
        await eventually(lambda: any(call.wants for call in work.lane.calls[asked:]))
        work.lane.suspects_wait = False
        work.host.let("c1")
        await work.committed("c1")
        assert [call.accept for call in work.lane.calls if call.done] == [False]
        work.host.let("b1")
        await work.committed("c1", "b1")
        assert [call.accept for call in work.lane.calls if call.done] == [False, True]


ASKING = (ConsumedType("counter"), ConsumedType("clerk"), ConsumedType("idle"))


async def test_a_suspect_that_waits_is_joined_by_what_it_waits_for_and_no_more() -> None:
    async with working(*ASKING) as work:
        await work.quiet()
        work.host.gate("suspect", "c1")
        work.lane.suspects_wait = True
        work.offer(entry("a", "suspect"), entry("b", "b1"))
        await work.runs("suspect")
        work.lane.suspects_wait = False
        worker = work.host.worker
        assert worker is not None
        asked = len(work.lane.calls)
        worker.add_waiting(1, "clerk")
        work.offer(entry("c", "c1", "clerk"), entry("d", "d1", "clerk"))
        await work.runs("c1")
        beside = await work.sees_call(lambda call: call.wants, asked)
        assert (beside.wants, beside.held, beside.accept) == ({"clerk": 1}, 0, 0), "suspects, too"
        work.consumer.nudge()
        await asyncio.sleep(0.02)
        assert work.host.started == ["suspect", "c1"]
        work.host.let("c1")
        await work.committed("c1", "d1")
        assert work.host.started == ["suspect", "c1", "d1"], "what comes before the request goes first"
        worker.add_waiting(-1, "clerk")
        work.offer(entry("e", "e1", "clerk"))
        await asyncio.sleep(0.02)
        assert work.host.started == ["suspect", "c1", "d1"], "it is alone again"
        work.host.let("suspect")
        await work.committed("c1", "d1", "suspect", "b1", "e1")


@pytest.mark.parametrize("asked", ["", "elsewhere"])
async def test_a_suspect_that_waits_for_others_stays_alone(asked: str) -> None:
    async with working() as work:
        await work.quiet()
        work.host.gate("suspect")
        work.lane.suspects_wait = True
        work.offer(entry("a", "suspect"), entry("b", "b1"))
        await work.runs("suspect")
        work.lane.suspects_wait = False
        assert work.host.worker is not None
        work.host.worker.add_waiting(1, asked)
        await asyncio.sleep(0.02)
        assert work.host.started == ["suspect"]
        work.host.worker.add_waiting(-1, asked)
        work.host.let("suspect")
        await work.committed("suspect", "b1")


async def test_who_makes_room_for_a_suspect_hears_the_bells_of_those_it_waits_for_only() -> None:
    async with working(*ASKING) as work:
        await work.quiet()
        work.host.gate("suspect")
        work.lane.suspects_wait = True
        work.offer(entry("a", "suspect"))
        await work.runs("suspect")
        work.lane.suspects_wait = False
        assert work.host.worker is not None
        work.host.worker.add_waiting(1, "clerk")
        work.lane.bells.put_nowait("idle")
        await eventually(lambda: work.lane.rung == ["idle"], what="it waited for all bells until then")
        await eventually(lambda: work.lane.heard[-1] == ["clerk"])
        work.host.worker.add_waiting(-1, "clerk")
        work.host.let("suspect")
        await work.committed("suspect")


def test_patience_doubles_with_each_death_up_to_an_end() -> None:
    assert [patience(deaths) / PATIENCE for deaths in (0, 1, 2, 6, 1000)] == [1, 2, 4, 64, 64]


async def test_the_worse_the_record_of_a_suspect_the_longer_it_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def noted(suspicion: int) -> float:
        asked.append(suspicion)
        return 3600.0

    monkeypatch.setattr("callboard.broker.intake.patience", noted)
    async with working() as work:
        await work.quiet()
        work.host.gate("suspect")
        work.lane.suspects_wait, work.lane.suspicion = True, 3
        work.offer(entry("a", "suspect"))
        await work.runs("suspect")
        await eventually(lambda: asked == [3])
        work.lane.suspects_wait = False
        work.host.let("suspect")
        await work.committed("suspect")


def test_the_rate_follows_what_ends_and_is_not_measured_over_an_instant() -> None:
    load = WorkLoad()
    load.measure(100.0)
    load.completed += 50
    load.measure(100.0005)
    assert (load.rate, load.completed) == (0.0, 50), "half a millisecond says nothing"
    load.measure(100.5)
    assert load.rate == pytest.approx(50.0)
    assert not load.completed
    load.measure(101.0)
    assert load.rate == pytest.approx(25.0), "nothing has ended since"


def test_the_typical_size_grows_at_once_and_shrinks_slowly() -> None:
    load = WorkLoad()
    load.weigh([entry("a", "a", size=1999), entry("a", "b", size=3999)])
    assert load.typical_size == 3000
    load.weigh([entry("a", "c", size=99)])
    assert load.typical_size == pytest.approx(2700)


async def test_a_fenced_worker_waits_for_no_suspect_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.broker.intake.PATIENCE", 0.02)
    nudged: list[bool] = []
    suspects = Suspects(lambda: nudged.append(True))
    suspects.heed(True, 0)
    assert suspects.keep_room
    suspects.forget()
    await asyncio.sleep(0.04)
    assert (suspects.keep_room, suspects.patience_is_over, nudged) == (False, False, [])
