from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

import pytest

from broker.consumer import TypeLimits
from broker.errors import (
    ConnectionLostError,
)
from broker.outcome import Commit, DeadLetter, ErrorInfo, Release, Retry
from broker.redis.publisher import Posting
from tests.helpers.eventually import eventually
from tests.helpers.lanes import Call, entry, working

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


async def test_a_suspect_that_takes_long_does_not_hold_up_the_others_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker.consumer.PATIENCE", 0.05)
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


async def test_nothing_is_written_to_the_log_while_all_is_well(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with working() as work:
        work.offer(*(entry(f"k{n % 3}", str(n)) for n in range(20)))
        await eventually(lambda: len(work.lane.committed) == 20)
    assert not caplog.records
