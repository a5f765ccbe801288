from __future__ import annotations

import asyncio

import pytest

from callboard.broker.errors import FencedError
from callboard.broker.outcome import Commit
from tests.helpers.eventually import eventually
from tests.helpers.lanes import Failure, entry, working


async def test_handlers_that_do_not_wait_share_a_task() -> None:
    async with working() as work:
        tasks = set()
        handle = work.host.handle

        async def noting(delivery, worker):  # type: ignore[no-untyped-def]
            tasks.add(asyncio.current_task())
            return await handle(delivery, worker)

        work.host.handle = noting  # type: ignore[method-assign]
        work.offer(*(entry(f"k{n}", f"{n}") for n in range(30)))
        await eventually(lambda: len(work.lane.committed) == 30)
        assert len(tasks) <= 2


async def test_a_handler_that_raises_cancelled_error_by_itself_is_tried_again() -> None:
    async with working() as work:
        work.host.outcomes["a1"] = asyncio.CancelledError("mine")
        work.offer(entry("a", "a1"), entry("b", "b1"))
        await eventually(lambda: work.lane.returned == ["a1"])
        await work.committed("b1")
        assert work.modes()["a1"] == "R"
        work.offer(entry("a", "a2"))
        await work.committed("b1", "a2")


async def test_a_handler_that_raises_cancelled_error_by_itself_ends_as_a_dead_letter() -> None:
    async with working() as work:
        work.host.outcomes["a1"] = asyncio.CancelledError()
        work.offer(entry("a", "a1", tries=b"2 1 why"))
        await eventually(lambda: work.lane.buried == ["a1"])


async def test_a_host_that_breaks_its_promise_costs_one_attempt(caplog: pytest.LogCaptureFixture) -> None:
    async with working() as work:
        work.host.outcomes["a1"] = LookupError("not to be raised")
        work.host.gate("a1", "b1")
        work.offer(entry("a", "a1"), entry("a", "a2"), entry("b", "b1"))
        await work.holds(3)
        work.host.let("a1", "b1")
        await eventually(lambda: work.lane.returned == ["a1", "a2"])
        await work.committed("b1")
        assert "the host failed on an entry of topic:visits" in caplog.text


async def test_no_more_handlers_run_than_concurrency() -> None:
    async with working(concurrency=3) as work:
        bodies = [str(n) for n in range(20)]
        work.host.gate(*bodies)
        work.offer(*(entry(body, body) for body in bodies))
        for done in range(20):
            await eventually(lambda done=done: len(work.host.started) >= min(20, done + 3))  # type: ignore[misc]
            work.host.let(work.host.started[done])
        await eventually(lambda: len(work.lane.committed) == 20)
        assert work.host.most_at_once == {b"counter": 3}


async def test_a_handler_is_told_which_worker_runs_it() -> None:
    async with working() as work:
        work.offer(entry("a", "a1"))
        await work.committed("a1")
        assert work.host.worker is not None
        assert work.host.worker.worker == "here:1:1" == work.consumer.worker


async def test_while_a_handler_waits_for_a_reply_another_runs_in_its_place() -> None:
    async with working(concurrency=1) as work:
        work.host.gate("a1")
        work.offer(entry("a", "a1"), entry("b", "b1"))
        await work.runs("a1")
        await asyncio.sleep(0.01)
        assert work.host.started == ["a1"]
        assert work.host.worker is not None
        work.host.worker.add_waiting(1, "counter")
        await work.committed("b1")
        work.host.worker.add_waiting(-1, "counter")
        work.host.let("a1")
        await work.committed("b1", "a1")


async def test_a_cancellation_that_a_fenced_handler_ignored_is_not_taken_for_the_next_handlers() -> None:
    async with working(concurrency=1) as work:
        cancelled = asyncio.Event()
        handle = work.host.handle

        async def stubborn(delivery, worker):  # type: ignore[no-untyped-def]
            if delivery.envelope.body != b"a1":
                return await handle(delivery, worker)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
            return Commit()

        work.host.handle = stubborn  # type: ignore[method-assign]
        work.host.outcomes["b1"] = asyncio.CancelledError("its own")
        work.offer(entry("a", "a1"))
        await eventually(lambda: work.consumer.running)
        work.lane.held.clear()
        work.lane.failures.append(Failure(FencedError("here:1:1")))
        work.consumer.nudge()
        await cancelled.wait()
        work.offer(entry("b", "b1"))
        await eventually(lambda: work.lane.returned == ["b1"])
        assert work.modes()["b1"] == "R", "it failed by itself, which counts as an attempt"
