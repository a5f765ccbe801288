from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from callboard.broker.envelope import Delivery
from callboard.broker.errors import ConnectionLostError, FencedError
from callboard.broker.intake import Bell
from callboard.broker.mailbox import ConsumedType, Ending, Pull, Rung, Turn
from tests.helpers.eventually import eventually
from tests.helpers.lanes import Failure, FakeLane, entry, working


async def test_a_bell_that_nobody_rang_makes_it_look_at_every_stream() -> None:
    async with working(idle_poll=0.25) as work:
        await work.quiet()
        assert work.lane.polls == [0.25]
        turns = len(work.lane.calls)
        work.lane.bells.put_nowait("counter")
        await eventually(lambda: len(work.lane.polls) == 2)
        assert [call.scan for call in work.lane.calls[turns:]] == [False]
        work.lane.bells.put_nowait(None)
        await eventually(lambda: len(work.lane.polls) == 3)
        assert [call.scan for call in work.lane.calls[turns:]] == [False, False, True]
        work.lane.bells.put_nowait("")
        await eventually(lambda: len(work.lane.polls) == 4)
        scans = [call.scan for call in work.lane.calls[turns:]]
        assert scans == [False, False, True, False, True], "somebody may have added something"


async def test_an_idle_worker_gets_its_work_with_the_bell() -> None:
    async with working() as work:
        await work.quiet()
        turns = len(work.lane.calls)
        work.lane.offer(entry("a", "a1"))
        work.lane.bells.put_nowait("counter")
        await work.committed("a1")
        first, second = work.lane.calls[turns : turns + 2]
        assert (first.done, first.wants, first.held) == ([], {"counter": 1}, 0)
        assert second.done == [("a1", "C")], (
            "the next turn carries the commit: nothing was asked for in between"
        )


async def test_a_worker_that_holds_something_takes_nothing_with_the_bell() -> None:
    """Between the bell and its answer it might commit, and free an agent of which the bell brings more."""
    async with working() as work:
        await work.quiet()
        work.host.gate("a1")
        work.offer(entry("a", "a1"))
        await work.runs("a1")
        work.lane.bells.put_nowait("counter")  # for the turn that waited there before
        await eventually(lambda: len(work.lane.polls) == 2 and work.consumer.held == 1)
        turns = len(work.lane.calls)
        work.lane.offer(entry("b", "b1"))
        work.lane.bells.put_nowait("counter")
        assert (await work.sees_call(lambda call: call.wants, since=turns)).held == 1
        work.host.let("a1")
        await eventually(lambda: set(work.lane.committed) == {"a1", "b1"})


async def test_what_the_bell_brought_is_asked_after_when_its_answer_is_lost() -> None:
    async with working() as work:
        await work.quiet()
        work.lane.offer(entry("a", "a1"))
        work.lane.failures.append(Failure(ConnectionLostError("redis://test"), carried_out=True))
        work.lane.bells.put_nowait("counter")
        await work.committed("a1")
        assert work.lane.resyncs == 1
        assert work.host.started == ["a1"], "once"


async def test_a_lease_that_ended_at_the_bell_begins_a_new_incarnation() -> None:
    async with working() as work:
        await work.quiet()
        work.lane.failures.append(Failure(FencedError("here:1:1")))
        work.lane.bells.put_nowait("counter")
        await eventually(lambda: work.lane.joins == 2)
        work.offer(entry("a", "a1"))
        await work.committed("a1")


@pytest.mark.parametrize("is_late", [True, False], ids=["after it", "while it is under way"])
async def test_what_the_bell_brings_comes_before_what_a_later_turn_brings(is_late: bool) -> None:
    """The server answers both, over two connections: the bell is heard when the later turn was answered, or before that."""
    async with working() as work:
        await work.quiet()
        first, second = entry("a", "a1"), entry("a", "a2")
        bell = asyncio.Event()

        async def late(*_: object) -> Rung:
            await bell.wait()
            return Rung("counter", given(first))

        async def overtaking(endings: Sequence[Ending], pull: Pull) -> Turn:
            del work.lane.turn
            if is_late:
                asyncio.get_running_loop().call_later(0.01, bell.set)
            else:
                bell.set()
                await asyncio.sleep(0.01)
            return given(second)._replace(is_second=is_late)

        work.lane.turn_at_bell = late  # type: ignore[method-assign, assignment]
        work.lane.bells.put_nowait("counter")  # ends the present wait
        await eventually(lambda: work.consumer.is_idle and work.lane.bells.empty())
        await asyncio.sleep(0)
        del work.lane.turn_at_bell
        for delivery in (first, second):
            work.lane.held[delivery.reference] = delivery
        work.lane.turn = overtaking  # type: ignore[method-assign]
        work.consumer.nudge()
        await work.committed("a1", "a2")


async def test_what_the_bell_brought_while_a_turn_failed_is_taken_once() -> None:
    """The turn is asked after, and the server tells of all that it gave."""
    async with working() as work:
        await work.quiet()
        first, bell = entry("a", "a1"), asyncio.Event()

        async def late(*_: object) -> Rung:
            await bell.wait()
            return Rung("counter", given(first))

        async def failing(endings: Sequence[Ending], pull: Pull) -> Turn:
            del work.lane.turn
            work.lane.held[first.reference] = first
            bell.set()
            await asyncio.sleep(0.01)
            raise ConnectionLostError("redis://test")

        work.lane.turn_at_bell = late  # type: ignore[method-assign, assignment]
        work.lane.bells.put_nowait("counter")
        await eventually(lambda: work.consumer.is_idle and work.lane.bells.empty())
        await asyncio.sleep(0)
        del work.lane.turn_at_bell
        work.lane.turn = failing  # type: ignore[method-assign]
        work.consumer.nudge()
        await work.committed("a1")
        assert work.host.started == ["a1"]


def given(*deliveries: Delivery) -> Turn:
    return Turn(list(deliveries), 1_763_700_000_000, None, False, False, "")


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


class Refusing(FakeLane):
    """Answers the turn at the bell when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.answer: asyncio.Future[Rung] = asyncio.get_running_loop().create_future()

    async def turn_at_bell(self, agent_types: Sequence[str], seconds: float, pull: Pull) -> Rung:
        return await self.answer


async def test_a_lost_lease_that_is_dealt_with_at_once_is_no_failure_of_the_bell(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The finding: under load a worker takes what the bell has brought before its task counts as done."""
    lane, told = Refusing(), list[str]()
    types = {"counter": ConsumedType("counter")}
    bell = Bell(lane, types, lambda _: True, lambda: told.append("nudge"), lambda: told.append("wake"), 1.0)
    bell.scan = False
    bell.listen(Pull((types["counter"],), 1, 0, False, 1))
    await asyncio.sleep(0)
    lane.answer.set_exception(FencedError("here:1:1"))
    taken: list[object] = []
    asyncio.get_running_loop().call_soon(lambda: taken.append(bell.take()))
    await asyncio.sleep(0.01)
    (brought,) = taken
    assert brought is not None
    assert (told, bell.scan, bell.take()) == (["wake"], True, None)
    assert caplog.records == []


async def test_a_wait_that_is_ended_before_it_began_is_followed_by_another() -> None:
    """A type is added in the very moment in which a worker without types begins to listen."""
    lane, nudged = FakeLane(), asyncio.Event()
    types: dict[str, ConsumedType] = {}
    bell = Bell(lane, types, lambda _: True, nudged.set, nudged.set, 5.0)
    bell.listen()
    await bell.listen_anew([])
    types["counter"] = ConsumedType("counter")
    await asyncio.wait_for(nudged.wait(), 5)
    nudged.clear()
    bell.listen()
    lane.bells.put_nowait("counter")
    await asyncio.wait_for(nudged.wait(), 5)
    await asyncio.gather(*bell.end(), return_exceptions=True)
