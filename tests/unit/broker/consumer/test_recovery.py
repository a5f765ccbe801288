from __future__ import annotations

import asyncio
import random
import time

import pytest

from callboard.broker.consumer import CutOff
from callboard.broker.envelope import Envelope, Posting
from callboard.broker.errors import (
    CommandError,
    ConnectionLostError,
    FencedError,
    OverloadedError,
    ServerUnavailableError,
)
from callboard.broker.outcome import Commit, Retry
from tests.helpers.eventually import eventually
from tests.helpers.lanes import Failure, entry, working

LOST = ConnectionLostError("redis://test", "cut")
RETRY = Retry(0.25, "ValueError: no")


# Fenced


async def test_a_worker_that_lost_its_lease_drops_what_it_did_and_joins_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with working() as work:
        work.host.gate("a1", "a1 again")
        work.offer(entry("a", "a1"), entry("a", "a2"), entry("b", "b1"))
        await work.committed("b1")
        work.lane.held.clear()
        work.lane.failures.append(Failure(FencedError("here:1:1")))
        work.consumer.nudge()
        await eventually(lambda: work.host.cancelled == ["a1"])
        assert work.host.fenced_from == ["a1"]
        await eventually(lambda: work.lane.joins == 2)
        assert work.host.declared == 2, "the server may have lost its data"
        assert work.consumer.worker == "here:1:2"
        assert "fenced: the worker here:1:1 lost its lease" in caplog.text
        work.offer(entry("a", "a1 again"))
        await work.runs("a1 again")
        work.host.let("a1 again")
        await work.committed("b1", "a1 again")
        assert work.host.started == ["a1", "b1", "a1 again"]


async def test_what_had_ended_when_the_lease_was_lost_is_not_committed() -> None:
    async with working() as work:
        await work.quiet()
        work.host.gate("a1")
        work.offer(entry("a", "a1"))
        await work.runs("a1")
        work.lane.failures.append(Failure(FencedError("here:1:1")))
        work.host.let("a1")
        await eventually(lambda: work.lane.joins == 2)
        await work.quiet()
        assert work.lane.committed == []
        assert work.consumer.held == 0


async def test_what_ended_while_the_server_said_no_is_not_committed() -> None:
    async with working() as work:
        await work.quiet()
        work.host.gate("a1")
        work.offer(entry("a", "a1"))
        await work.runs("a1")
        turns = len(work.lane.calls)
        work.lane.answering.clear()
        work.lane.failures.append(Failure(FencedError("here:1:1"), carried_out=True))
        work.consumer.nudge()
        await eventually(lambda: len(work.lane.calls) > turns)
        work.host.let("a1")
        await eventually(lambda: work.host.ended == ["a1"])
        work.lane.answering.set()
        await eventually(lambda: work.lane.joins == 2)
        await work.quiet()
        assert work.lane.committed == []


async def test_a_fenced_handler_that_goes_on_is_not_committed_when_it_ends() -> None:
    async with working() as work:
        release, cancelled = asyncio.Event(), asyncio.Event()
        handle = work.host.handle

        async def stubborn(delivery, worker):  # type: ignore[no-untyped-def]
            if delivery.envelope.body != b"a1":
                return await handle(delivery, worker)
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    cancelled.set()
            return Commit()

        work.host.handle = stubborn  # type: ignore[method-assign]
        work.offer(entry("a", "a1"))
        await eventually(lambda: work.consumer.running)
        work.lane.held.clear()
        work.lane.failures.append(Failure(FencedError("here:1:1")))
        work.consumer.nudge()
        await cancelled.wait()
        release.set()
        work.offer(entry("a", "a2"))
        await work.committed("a2")


async def test_joining_again_goes_on_until_the_server_lets_it() -> None:
    async with working() as work:
        errors = [LOST, CommandError("BUSY"), OverloadedError("full"), ServerUnavailableError("x", "LOADING")]
        work.lane.join_errors.extend(errors)
        work.lane.failures.append(Failure(FencedError("here:1:1")))
        work.consumer.nudge()
        await eventually(lambda: work.lane.joins == 2)
        work.offer(entry("a", "a1"))
        await work.committed("a1")


async def test_a_worker_that_is_fenced_while_it_drains_just_ends() -> None:
    async with working() as work:
        assert work.task
        work.host.gate("a1")
        work.offer(entry("a", "a1"), entry("b", "b1"))
        await work.committed("b1")
        work.lane.failures.append(Failure(FencedError("here:1:1")))
        work.consumer.drain()
        work.consumer.nudge()
        await asyncio.wait_for(work.task, 5)
        assert work.lane.joins == 1


# Answers that are lost


@pytest.mark.parametrize("carried_out", [False, True])
async def test_commits_whose_answer_was_lost_are_counted_or_sent_again(carried_out: bool) -> None:
    async with working() as work:
        work.host.gate("a1", "b1")
        work.offer(entry("a", "a1"), entry("a", "a2"), entry("b", "b1"))
        await work.runs("a1", "b1")
        work.lane.failures.append(Failure(LOST, carried_out))
        work.host.let("a1", "b1")
        await eventually(lambda: len(work.lane.committed) == 3)
        await work.quiet()
        assert work.lane.resyncs == 1
        assert [body for body in work.lane.committed if body[0] == "a"] == ["a1", "a2"]
        assert sorted(work.host.started) == ["a1", "a2", "b1"], "nothing is handled twice"
        assert work.consumer.held == 0


async def test_entries_of_a_lost_answer_are_adopted() -> None:
    async with working() as work:
        await work.quiet()
        work.lane.failures.append(Failure(LOST, carried_out=True))
        work.offer(entry("a", "a1"))
        await work.committed("a1")
        assert work.host.given["a1"].state_unknown, "its state was in the answer that was lost"


async def test_what_was_to_go_back_in_a_lost_turn_goes_back_again() -> None:
    async with working() as work:
        await work.quiet()
        work.host.gate("a1")
        work.host.outcomes["a1"] = RETRY
        work.lane.answering.clear()
        work.offer(entry("a", "a1"), entry("a", "a2"))
        await eventually(lambda: work.lane.held)
        work.lane.answering.set()
        await work.runs("a1")
        await eventually(lambda: len(work.lane.held) == 2)
        work.lane.failures.append(Failure(LOST))
        work.host.let("a1")
        await eventually(lambda: work.lane.returned == ["a1", "a2"])
        assert work.host.started == ["a1"]
        assert work.consumer.held == 0


async def test_what_was_given_back_by_a_drain_in_a_lost_turn_is_not_started() -> None:
    async with working() as work:
        assert work.task
        work.host.gate("a1", "b1")
        work.offer(entry("a", "a1"), entry("a", "a2"), entry("b", "b1"))
        await work.runs("a1", "b1")
        work.lane.failures.append(Failure(LOST))
        work.consumer.drain()
        work.host.let("a1", "b1")
        await asyncio.wait_for(work.task, 5)
        assert sorted(work.lane.committed) == ["a1", "b1"]
        assert work.lane.returned == ["a2"]
        assert "a2" not in work.host.started


async def test_handlers_go_on_while_the_server_is_away() -> None:
    async with working() as work:
        away = asyncio.Event()
        reconnect = work.lane.reconnect

        async def waiting(within: float) -> None:
            await away.wait()
            await reconnect(within)

        work.lane.reconnect = waiting  # type: ignore[method-assign]
        work.host.gate("a1")
        work.offer(entry("a", "a1"), entry("a", "a2"), entry("b", "b1"))
        await work.committed("b1")
        work.lane.failures.append(Failure(LOST))
        work.consumer.nudge()
        await eventually(lambda: not work.lane.failures)
        work.host.let("a1")
        await work.runs("a1", "a2")
        away.set()
        await work.committed("b1", "a1", "a2")


async def test_it_connects_again_however_long_it_takes(caplog: pytest.LogCaptureFixture) -> None:
    async with working() as work:
        work.lane.reconnect_errors.extend([ServerUnavailableError("redis://test", "refused")] * 3)
        work.lane.failures.append(Failure(LOST))
        work.offer(entry("a", "a1"))
        await work.committed("a1")
        assert work.lane.reconnects == 4
        assert "no connection to the server, trying again" in caplog.text


@pytest.mark.parametrize(
    "error", [CommandError("ERR no"), OverloadedError("full"), LOST], ids=lambda e: type(e).__name__
)
async def test_it_asks_where_it_is_until_it_knows(error: Exception) -> None:
    async with working() as work:
        work.lane.failures.append(Failure(error, carried_out=True))
        work.lane.resync_errors.extend([CommandError("ERR busy"), OverloadedError("full"), LOST])
        work.offer(entry("a", "a1"))
        await work.committed("a1")
        assert work.lane.resyncs == 4


async def test_a_lease_that_was_lost_meanwhile_is_noticed() -> None:
    async with working() as work:
        work.host.gate("a1")
        work.offer(entry("a", "a1"))
        await work.runs("a1")
        work.lane.held.clear()
        work.lane.failures.append(Failure(LOST))
        work.lane.resync_errors.append(FencedError("here:1:1"))
        work.consumer.nudge()
        await eventually(lambda: work.host.fenced_from == ["a1"])
        await eventually(lambda: work.lane.joins == 2)


async def test_without_a_server_at_the_start_it_says_so() -> None:
    async with working(start=False) as work:
        work.lane.join_errors.append(ServerUnavailableError("redis://test", "refused"))
        with pytest.raises(ServerUnavailableError):
            await work.start()
        assert work.lane.closed


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_answers_are_lost_everything_is_committed_once_and_in_order(seed: int) -> None:
    chance = random.Random(seed)
    async with working(prefetch=16, concurrency=4) as work:
        for number in range(20):
            work.offer(*(entry(key, f"{key}{number}") for key in "abc"))
            if chance.random() < 0.4:
                work.lane.failures.append(Failure(LOST, carried_out=chance.random() < 0.5))
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
        await eventually(lambda: len(work.lane.committed) == 60, what=lambda: work.lane.committed)
        for key in "abc":
            mine = [int(body[1:]) for body in work.lane.committed if body[0] == key]
            assert mine == list(range(20)), f"the commits of {key}"
        assert len(work.host.started) == 60


# Something that cannot be written


async def test_an_outcome_that_cannot_be_written_is_a_dead_letter_and_the_others_leave() -> None:
    async with working() as work:
        posting = Posting(Envelope("m", "Note", "half \ud800", None, 0, b""), "topic:x")
        work.host.outcomes["bad"] = Commit(outgoing=(posting,))
        work.host.outcomes["back"] = RETRY
        work.host.gate("good", "bad", "back")
        work.offer(entry("a", "good"), entry("b", "bad"), entry("c", "back"), entry("c", "rest"))
        await work.holds(4)
        work.host.let("good", "bad", "back")
        await work.committed("good")
        await eventually(lambda: work.lane.buried == ["bad"])
        assert work.lane.returned == ["back", "rest"]
        (dead,) = [one for one in work.lane.dones if one.mode[0] == "D"]
        assert dead.extras[0] == b"unsendable"
        assert work.host.started == ["good", "bad", "back"]


# The server knows something else


async def test_what_the_server_does_not_hold_is_not_run() -> None:
    """Everything begins anew: what the handlers of this worker changed in memory can't be told apart."""
    async with working() as work:
        work.host.gate("a1", "b1")
        work.offer(entry("a", "a1"), entry("a", "a2"), entry("b", "b1"))
        await work.runs("a1", "b1")
        gone = next(one for one in work.lane.held.values() if one.envelope.body == b"a1")
        del work.lane.held[gone.reference]
        work.lane.failures.append(Failure(LOST))
        work.consumer.nudge()
        await eventually(lambda: work.lane.joins == 2)
        assert work.lane.left, "it gave back what it held"
        assert sorted(work.host.cancelled) == ["a1", "b1"]
        assert sorted(work.host.fenced_from) == ["a1", "b1"]
        await work.quiet()
        assert (work.lane.committed, work.consumer.held) == ([], 0)


async def test_what_had_ended_and_the_server_does_not_hold_is_not_committed() -> None:
    async with working() as work:
        work.host.gate("a1", "b1")
        work.offer(entry("a", "a1"), entry("b", "b1"))
        await work.runs("a1", "b1")
        work.lane.answering.clear()
        work.lane.failures.append(Failure(LOST, carried_out=True))
        turns = len(work.lane.calls)
        work.consumer.nudge()
        await eventually(lambda: len(work.lane.calls) > turns)
        work.host.let("a1")
        await eventually(lambda: work.host.ended == ["a1"])
        gone = next(one for one in work.lane.held.values() if one.envelope.body == b"a1")
        del work.lane.held[gone.reference]
        work.lane.leave_error = LOST
        work.lane.answering.set()
        await eventually(lambda: work.lane.joins == 2)
        await work.quiet()
        assert work.lane.committed == []


# Without answers


async def test_a_worker_that_gets_no_answer_for_longer_than_its_lease_is_cut_off() -> None:
    async with working(lease=0.2, beat_every=0.1) as work:
        work.lane.resync_errors.extend([ServerUnavailableError("redis://test", "READONLY")] * 3)
        work.lane.reconnect_errors.extend([ServerUnavailableError("redis://test", "refused")] * 100_000)
        assert not work.consumer.is_cut_off
        work.lane.failures.append(Failure(LOST))
        work.consumer.nudge()
        await eventually(lambda: work.consumer.is_cut_off)
        work.lane.reconnect_errors.clear()
        await eventually(lambda: not work.consumer.is_cut_off)
        work.offer(entry("a", "a1"))
        await work.committed("a1")


async def test_an_idle_worker_and_one_whose_handlers_run_are_not_cut_off() -> None:
    async with working(lease=0.1, beat_every=0.05) as work:
        work.host.gate("a1")
        work.offer(entry("a", "a1"))
        await work.runs("a1")
        await asyncio.sleep(0.3)
        assert not work.consumer.is_cut_off
        work.host.let("a1")


async def test_a_blocked_event_loop_is_not_cut_off() -> None:
    """A handler blocks the loop for long between two attempts: the server was not asked in that time."""
    cut_off = CutOff(0.05)
    with cut_off:
        time.sleep(0.3)  # noqa: ASYNC251 - this is the handler
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not cut_off.is_too_long
        await eventually(lambda: cut_off.is_too_long)
    assert not cut_off.is_too_long
