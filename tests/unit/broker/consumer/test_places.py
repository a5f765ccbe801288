from __future__ import annotations

from callboard.broker.errors import FencedError
from callboard.broker.mailbox import ConsumedType, Mailbox, Places
from tests.helpers.eventually import eventually
from tests.helpers.lanes import Failure, entry, working


async def test_an_agent_type_keeps_to_its_concurrency_and_holds_back_no_other() -> None:
    types = (ConsumedType("slow", concurrency=2), ConsumedType("fast"))
    async with working(*types) as work:
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


async def test_a_mailbox_that_is_given_back_does_not_keep_a_place_from_those_behind_it() -> None:
    async with working(ConsumedType("counter", concurrency=1)) as work:
        work.host.gate("a1")
        work.offer(entry("a", "a1"), entry("b", "b1"), entry("c", "c1"))
        await work.runs("a1")
        await eventually(lambda: work.consumer.held == 3)
        work.consumer.step_back(lambda delivery: delivery.raw_key == b"b")
        await eventually(lambda: work.lane.returned == ["b1"])
        work.host.let("a1")
        await work.committed("a1", "c1")


async def test_what_waited_for_a_place_when_the_lease_was_lost_does_not_begin() -> None:
    async with working(ConsumedType("counter", concurrency=1)) as work:
        work.host.gate("a1")
        work.offer(entry("a", "a1"), entry("b", "b1"))
        await work.runs("a1")
        await eventually(lambda: work.consumer.held == 2)
        work.lane.held.clear()
        work.lane.failures.append(Failure(FencedError("here:1:1")))
        work.consumer.nudge()
        await eventually(lambda: work.lane.joins == 2)
        await work.quiet()
        assert work.host.started == ["a1"]
        work.offer(entry("c", "c1"))
        await work.committed("c1")


def test_a_type_has_as_many_places_as_its_limit_and_those_who_wait_come_in_order() -> None:
    places = Places(10, [ConsumedType("slow", concurrency=2), ConsumedType("fast")])
    slow = [Mailbox((b"slow", key)) for key in (b"a", b"b", b"c", b"d")]
    assert [places.enter(mailbox) for mailbox in slow] == [True, True, False, False]
    assert places.enter(Mailbox((b"fast", b"a")))
    assert places.running == 3
    assert places.leave(b"fast") is None
    assert places.leave(b"slow") is slow[2]
    assert places.leave(b"slow") is slow[3]
    assert places.running == 0


def test_handlers_that_wait_leave_their_place_to_others() -> None:
    places = Places(3, ())
    places.add_waiting(2, "asked")
    assert places.total == 5
