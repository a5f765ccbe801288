from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from callboard.broker.errors import ConnectionLostError
from callboard.broker.mailbox import ConsumedType
from callboard.broker.outcome import DeadLetter, ErrorInfo, Release, Retry
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


async def test_what_it_holds_of_an_agent() -> None:
    async with working() as work:
        work.host.gate("a1")
        work.offer(entry("a", "a1"), entry("a", "a2"))
        await work.runs("a1")
        assert work.consumer.holds("counter", "a")
        assert not work.consumer.holds("counter", "b")
        assert not work.consumer.holds("other", "a")
        work.host.let("a1")
        await work.committed("a1", "a2")
        assert await eventually(lambda: not work.consumer.holds("counter", "a"))


async def test_a_key_that_waits_holds_back_nobody_else() -> None:
    async with working() as work:
        work.host.gate("a1")
        work.offer(entry("a", "a1"), entry("b", "b1"), entry("a", "a2"), entry("c", "c1"))
        await work.committed("b1", "c1")
        assert work.host.started == ["a1", "b1", "c1"]
        work.host.let("a1")
        await work.committed("b1", "c1", "a1", "a2")


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


async def test_one_delivery_costs_two_turns() -> None:
    """The turn that asks for more carries the commit of a handler that ended at once."""
    async with working() as work:
        await work.quiet()
        turns = len(work.lane.calls)
        work.offer(entry("a", "a1"))
        await work.committed("a1")
        await work.quiet()
        assert len(work.lane.calls) - turns == 2


# Outcomes


async def test_a_retry_gives_back_the_rest_of_its_key_in_order() -> None:
    async with working() as work:
        work.host.outcomes["a1"] = RETRY
        work.host.gate("a1", "b1")
        work.offer(entry("a", "a1"), entry("a", "a2"), entry("b", "b1"), entry("a", "a3"))
        await work.holds(4)
        work.host.let("a1", "b1")
        call = await work.sees_call(ends("a1"))
        assert [item for item in call.done if item[0][0] == "a"] == [("a1", "R"), ("a2", "L"), ("a3", "L")]
        await work.quiet()
        assert work.host.started == ["a1", "b1"]
        assert work.lane.committed == ["b1"]
        assert work.consumer.held == 0


async def test_a_retry_after_a_commit_of_its_key_in_the_same_turn() -> None:
    async with working() as work:
        work.host.outcomes["a2"] = RETRY
        work.host.gate("a1")
        work.offer(entry("a", "a1"), entry("a", "a2"), entry("a", "a3"))
        await work.holds(3)
        work.host.let("a1")
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
        work.host.gate("a1")
        work.offer(entry("a", "a1"), entry("a", "a2"))
        await work.holds(2)
        work.host.let("a1")
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


async def test_types_that_are_added_are_announced_and_taken() -> None:
    async with working() as work:
        await work.quiet()
        work.lane.offer(entry("x", "x1", "audit"))
        await work.consumer.add_types([ConsumedType("audit", concurrency=1)])
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
