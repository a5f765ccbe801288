from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence

import pytest

from broker.consumer import TypeLimits
from broker.errors import (
    CommandError,
    ConnectionLostError,
    FencedError,
    OverloadedError,
    ServerUnavailableError,
)
from broker.outcome import Commit, DeadLetter, ErrorInfo, Release, Retry
from broker.redis.publisher import Posting
from tests.helpers.eventually import eventually
from tests.helpers.lanes import Call, Failure, entry, working

LOST = ConnectionLostError("redis://test", "cut")
RETRY = Retry(0.25, "ValueError: no")


def ends(body: str) -> Callable[[Call], bool]:
    """A turn in which this body ends, whatever the mode."""
    return lambda call: body in dict(call.done)


# Order and keys


async def test_entries_of_a_key_are_handled_one_after_the_other_in_order() -> None:
    async with working() as work:
        work.host.gate("a1")
        work.offer(entry("a", "a1"), entry("a", "a2"), entry("a", "a3"))
        await work.runs("a1")
        assert work.host.started == ["a1"]
        work.host.let("a1")
        await work.committed("a1", "a2", "a3")
        assert work.host.started == ["a1", "a2", "a3"]
        assert work.host.most_at_once == {b"counter": 1}


async def test_a_key_that_waits_holds_back_nobody_else() -> None:
    async with working() as work:
        work.host.gate("a1")
        work.offer(entry("a", "a1"), entry("b", "b1"), entry("a", "a2"), entry("c", "c1"))
        await work.committed("b1", "c1")
        assert work.host.started == ["a1", "b1", "c1"]
        work.host.let("a1")
        await work.committed("b1", "c1", "a1", "a2")


async def test_handlers_that_do_not_wait_share_a_task() -> None:
    async with working() as work:
        tasks = set()
        handle = work.host.handle

        async def noting(delivery):  # type: ignore[no-untyped-def]
            tasks.add(asyncio.current_task())
            return await handle(delivery)

        work.host.handle = noting  # type: ignore[method-assign]
        work.offer(*(entry(f"k{n}", f"{n}") for n in range(30)))
        await eventually(lambda: len(work.lane.committed) == 30)
        assert len(tasks) <= 2


async def test_a_key_is_let_go_with_the_last_entry_that_is_held() -> None:
    async with working() as work:
        work.host.gate("a1", "a3")
        work.offer(entry("a", "a1"), entry("a", "a2"), entry("a", "a3"))
        await work.runs("a1")
        work.host.let("a1")
        await work.committed("a1", "a2")
        work.host.let("a3")
        await work.committed("a1", "a2", "a3")
        assert work.modes() == {"a1": "CM", "a2": "CM", "a3": "C"}


async def test_a_key_that_just_finished_is_kept_when_the_turn_under_way_brings_more_of_it() -> None:
    async with working() as work:
        work.host.gate("a1", "a2")
        work.offer(entry("a", "a1"))
        await work.runs("a1")
        work.lane.answering.clear()
        turns = len(work.lane.calls)
        work.offer(entry("a", "a2"))
        await work.sees_call(lambda call: call.wants, since=turns)
        work.host.let("a1")
        await eventually(lambda: "a1" in work.host.ended)
        work.lane.answering.set()
        await work.runs("a2")
        await work.committed("a1")
        assert work.modes() == {"a1": "CM"}
        work.host.let("a2")
        await work.committed("a1", "a2")
        assert work.modes() == {"a1": "CM", "a2": "C"}


async def test_two_that_ended_in_one_turn_let_go_of_their_key_once() -> None:
    async with working() as work:
        work.lane.answering.clear()
        work.offer(entry("b", "b1"))
        await work.sees_call(lambda call: call.wants)
        work.offer(entry("a", "a1"), entry("a", "a2"))
        work.lane.answering.set()
        await work.committed("b1", "a1", "a2")
        call = await work.sees_call(ends("a1"))
        assert [item for item in call.done if item[0][0] == "a"] == [("a1", "CM"), ("a2", "C")]


# Outcomes


async def test_a_retry_gives_back_the_rest_of_its_key_in_order() -> None:
    async with working() as work:
        work.host.outcomes["a1"] = RETRY
        work.offer(entry("a", "a1"), entry("a", "a2"), entry("b", "b1"), entry("a", "a3"))
        call = await work.sees_call(ends("a1"))
        assert [item for item in call.done if item[0][0] == "a"] == [("a1", "R"), ("a2", "L"), ("a3", "L")]
        await work.quiet()
        assert work.host.started == ["a1", "b1"]
        assert work.lane.committed == ["b1"]
        assert work.consumer.held == 0


async def test_a_retry_after_a_commit_of_its_key_in_the_same_turn() -> None:
    async with working() as work:
        work.host.outcomes["a2"] = RETRY
        work.offer(entry("a", "a1"), entry("a", "a2"), entry("a", "a3"))
        await eventually(lambda: work.lane.returned == ["a2", "a3"])
        assert work.modes() == {"a1": "CM", "a2": "R", "a3": "L"}


async def test_what_comes_for_a_key_that_is_given_back_goes_back_behind_it() -> None:
    async with working() as work:
        work.host.gate("a1")
        work.host.outcomes["a1"] = RETRY
        work.offer(entry("a", "a1"))
        await work.runs("a1")
        work.lane.answering.clear()
        turns = len(work.lane.calls)
        work.offer(entry("a", "a2"))
        await work.sees_call(lambda call: call.wants, since=turns)
        work.host.let("a1")
        await asyncio.sleep(0)
        await eventually(lambda: "a1" in work.host.ended)
        work.lane.answering.set()
        await eventually(lambda: work.lane.returned == ["a1", "a2"])
        assert work.host.started == ["a1"]


async def test_a_release_counts_no_attempt_and_gives_back_the_rest() -> None:
    async with working() as work:
        work.host.outcomes["a1"] = Release("not now")
        work.offer(entry("a", "a1"), entry("a", "a2"))
        await eventually(lambda: work.lane.returned == ["a1", "a2"])
        assert work.modes() == {"a1": "L", "a2": "L"}


async def test_a_dead_letter_does_not_hold_up_its_key() -> None:
    async with working() as work:
        work.host.outcomes["a1"] = DeadLetter("failed", ErrorInfo("ValueError", "no", "Traceback"))
        work.offer(entry("a", "a1", tries=b"2 1763 why"), entry("a", "a2"))
        await work.committed("a2")
        assert work.lane.buried == ["a1"]
        (dead,) = [one for one in work.lane.dones if one.mode[0] == "D"]
        assert list(dead.extras) == [b"failed", b"ValueError: no", b"Traceback", 3, "1763"]


async def test_error_texts_that_are_no_utf8_are_written_all_the_same() -> None:
    async with working() as work:
        work.host.outcomes["a1"] = DeadLetter("failed", ErrorInfo("OSError", "file \udc80"))
        work.host.outcomes["b1"] = Retry(0.1, "OSError: file \udc80")
        work.offer(entry("a", "a1"), entry("b", "b1"))
        await eventually(lambda: work.lane.buried == ["a1"] and work.lane.returned == ["b1"])
        texts = [extra for done in work.lane.dones for extra in done.extras if isinstance(extra, bytes)]
        assert texts.count(rb"OSError: file \udc80") == 2
        assert work.lane.resyncs == 0


async def test_an_outcome_that_cannot_be_written_is_a_dead_letter_and_the_others_leave() -> None:
    async with working() as work:
        posting = Posting("topic:x", 0, ("m", "Note", "half \ud800", "", b"", b""))
        work.host.outcomes["bad"] = Commit(outgoing=(posting,))
        work.host.outcomes["back"] = RETRY
        work.offer(entry("a", "good"), entry("b", "bad"), entry("c", "back"), entry("c", "rest"))
        await work.committed("good")
        await eventually(lambda: work.lane.buried == ["bad"])
        assert work.lane.returned == ["back", "rest"]
        (dead,) = [one for one in work.lane.dones if one.mode[0] == "D"]
        assert dead.extras[0] == b"unsendable"
        assert work.host.started == ["good", "bad", "back"]


# Handlers that misbehave


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
        work.offer(entry("a", "a1"), entry("a", "a2"), entry("b", "b1"))
        await eventually(lambda: work.lane.returned == ["a1", "a2"])
        await work.committed("b1")
        assert "the host failed on an entry of topic:visits" in caplog.text


# How much is taken


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


async def test_what_is_asked_for_grows_while_more_comes_and_begins_again_at_one() -> None:
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
        assert work.lane.calls[turns].wants == {"counter": 1}


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


async def test_an_agent_type_keeps_to_its_concurrency_and_holds_back_no_other() -> None:
    types = {"slow": TypeLimits(concurrency=2), "fast": TypeLimits()}
    async with working(types) as work:
        slow = [f"s{n}" for n in range(8)]
        work.host.gate(*slow)
        work.offer(*(entry(body, body, "slow") for body in slow))
        await eventually(lambda: len(work.host.started) == 2)
        work.offer(*(entry(f"f{n}", f"f{n}", "fast") for n in range(4)))
        await eventually(lambda: len(work.lane.committed) == 4)
        work.host.let(*slow)
        await eventually(lambda: len(work.lane.committed) == 12)
        assert work.host.most_at_once[b"slow"] == 2
        assert work.host.started[:2] == ["s0", "s1"]
        assert [body for body in work.host.started if body[0] == "s"] == slow


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


# Waking up


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
    types = {"counter": TypeLimits(), "audit": TypeLimits()}
    async with working(types, concurrency=1, prefetch=1) as work:
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


async def test_types_that_are_added_are_announced_and_taken() -> None:
    async with working() as work:
        await work.quiet()
        work.lane.offer(entry("x", "x1", "audit"))
        await work.consumer.add_types({"audit": TypeLimits(concurrency=1)})
        assert work.lane.announced == ["counter", "audit"]
        await work.committed("x1")
        assert work.lane.rung == ["counter"], "who listens to the old bells has to listen to the new ones too"


async def test_it_is_idle_when_nothing_is_held_and_nothing_comes() -> None:
    async with working() as work:
        await work.quiet()
        work.host.gate("a1")
        work.offer(entry("a", "a1"))
        assert not work.consumer.is_idle
        await work.runs("a1")
        assert (work.consumer.held, work.consumer.running, work.consumer.is_idle) == (1, 1, False)
        work.host.let("a1")
        await work.quiet()
        assert (work.consumer.held, work.consumer.running) == (0, 0)


# Draining


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


async def test_a_drain_gives_back_keys_that_have_not_begun_at_once() -> None:
    async with working({"counter": TypeLimits(concurrency=1)}) as work:
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

        async def stubborn(delivery: object) -> Commit:
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


async def test_a_fenced_handler_that_goes_on_is_not_committed_when_it_ends() -> None:
    async with working() as work:
        release, cancelled = asyncio.Event(), asyncio.Event()
        handle = work.host.handle

        async def stubborn(delivery):  # type: ignore[no-untyped-def]
            if delivery.body != b"a1":
                return await handle(delivery)
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


async def test_nothing_is_written_to_the_log_while_all_is_well(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with working() as work:
        work.offer(*(entry(f"k{n % 3}", str(n)) for n in range(20)))
        await eventually(lambda: len(work.lane.committed) == 20)
    assert not caplog.records


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
