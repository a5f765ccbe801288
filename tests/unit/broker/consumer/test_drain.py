from __future__ import annotations

import asyncio

import pytest

from callboard.broker.errors import ConnectionLostError, ServerUnavailableError
from callboard.broker.mailbox import ConsumedType
from callboard.broker.outcome import Commit
from tests.helpers.eventually import eventually
from tests.helpers.lanes import Failure, entry, working

LOST = ConnectionLostError("redis://test", "cut")


async def test_a_drain_lets_what_runs_end_and_gives_back_the_rest() -> None:
    async with working() as work:
        assert work.task
        work.host.gate("a1")
        work.offer(entry("a", "a1"), entry("a", "a2"), entry("b", "b1"))
        await work.committed("b1")
        work.consumer.drain()
        await work.sees_call(lambda call: not call.accept)
        work.host.let("a1")
        await asyncio.wait_for(work.task, 5)
        assert work.lane.committed == ["b1", "a1"]
        assert work.lane.returned == ["a2"]
        assert work.lane.left
        assert work.lane.closed
        assert not work.lane.held
        drained = [call for call in work.lane.calls if not call.accept]
        assert not any(call.wants for call in drained)
        assert not work.lane.calls[-1].accept, "it is handed nothing more of a key that it finishes"


async def test_a_drain_gives_back_keys_that_have_not_begun_at_once() -> None:
    async with working(ConsumedType("counter", concurrency=1)) as work:
        assert work.task
        work.host.gate("a1")
        work.offer(entry("a", "a1"), entry("b", "b1"))
        await work.runs("a1")
        await eventually(lambda: work.consumer.held == 2)
        work.consumer.drain()
        await eventually(lambda: work.lane.returned == ["b1"], what="others have it while a1 still runs")
        work.host.let("a1")
        await asyncio.wait_for(work.task, 5)
        assert work.host.started == ["a1"]
        assert work.lane.committed == ["a1"]


async def test_what_a_turn_brings_after_the_drain_began_is_not_started() -> None:
    async with working() as work:
        assert work.task
        await work.quiet()
        work.lane.answering.clear()
        turns = len(work.lane.calls)
        work.offer(entry("a", "a1"), entry("b", "b1"))
        await work.sees_call(lambda call: call.wants, since=turns)
        work.consumer.drain()
        work.lane.answering.set()
        await asyncio.wait_for(work.task, 5)
        assert work.host.started == []
        assert work.lane.returned == ["a1"]
        assert len(work.lane.calls) <= turns + 3, "it does not ask in a loop"


async def test_a_drain_with_nothing_held_leaves_at_once() -> None:
    async with working() as work:
        assert work.task
        await work.quiet()
        work.consumer.drain()
        await asyncio.wait_for(work.task, 5)
        assert work.lane.left


async def test_giving_up_cancels_handlers_and_counts_no_attempt() -> None:
    async with working() as work:
        assert work.task
        work.host.gate("a1", "b1")
        work.offer(entry("a", "a1"), entry("b", "b1"), entry("a", "a2"))
        await work.runs("a1", "b1")
        work.consumer.drain()
        work.consumer.give_up()
        await asyncio.wait_for(work.task, 5)
        assert sorted(work.host.cancelled) == ["a1", "b1"]
        assert sorted(work.lane.returned) == ["a1", "a2", "b1"]
        assert work.modes() == {"a1": "L", "b1": "L", "a2": "L"}
        assert [body for body in work.lane.returned if body[0] == "a"] == ["a1", "a2"]


async def test_a_handler_that_ends_although_it_was_given_up_is_committed() -> None:
    async with working() as work:
        assert work.task
        started = asyncio.Event()

        async def stubborn(delivery: object, worker: object) -> Commit:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return Commit()
            return Commit()

        work.host.handle = stubborn  # type: ignore[method-assign]
        work.offer(entry("a", "a1"))
        await started.wait()
        work.consumer.drain()
        work.consumer.give_up()
        await asyncio.wait_for(work.task, 5)
        assert work.lane.committed == ["a1"]


async def test_a_drain_without_a_server_ends_although_handlers_run() -> None:
    async with working(socket_timeout=0.1) as work:
        assert work.task
        work.host.gate("a1")
        work.offer(entry("a", "a1"), entry("b", "b1"))
        await work.committed("b1")
        work.lane.reconnect_errors.extend([ServerUnavailableError("redis://test", "refused")] * 3)
        work.lane.failures.append(Failure(LOST))
        work.consumer.drain()
        work.consumer.nudge()
        with pytest.raises(ServerUnavailableError):
            await asyncio.wait_for(work.task, 5)
        assert work.host.cancelled == ["a1"]
        assert work.lane.closed


async def test_a_lease_that_cannot_be_given_back_ends_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    async with working() as work:
        assert work.task
        work.lane.leave_error = LOST
        work.consumer.drain()
        await asyncio.wait_for(work.task, 5)
        assert "the lease of here:1:1 ends by itself" in caplog.text


async def test_a_cancelled_consumer_leaves_no_task_behind() -> None:
    async with working() as work:
        assert work.task
        work.host.gate("a1")
        work.offer(entry("a", "a1"))
        await work.runs("a1")
        work.task.cancel()
        await asyncio.wait({work.task})
        assert work.task.cancelled()
        assert work.host.cancelled == ["a1"]
        assert work.lane.closed
