"""A turn carries no more bytes of commits than pass through the line in time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from callboard.broker.envelope import Claim, Envelope, Posting
from callboard.broker.mailbox import MOST_RECORDS, PAYLOADS, Ending, Portion, weight
from callboard.broker.outcome import (
    NOTHING,
    Commit,
    DeadLetter,
    ErrorInfo,
    LogChange,
    Outcome,
    Release,
    Suspend,
)
from callboard.broker.redis.library import Mark
from tests.helpers.eventually import eventually
from tests.helpers.lanes import Call, Work, entry, working

PAYLOAD = 100_000


def sends(size: int, claim: Claim | None = None) -> Posting:
    return Posting(Envelope("m", "Note", "a", None, 0, bytes(size)), "topic:log", claim=claim)


def offer(work: Work, *bodies: str, size: int = PAYLOAD) -> None:
    """One message each for the agent that the body begins with; its handler sends so many bytes."""
    for body in bodies:
        work.host.outcomes[body] = Commit(outgoing=(sends(size),))
    work.offer(*(entry(body[0], body) for body in bodies))


async def all_end_at_once(work: Work, bodies: Sequence[str], size: int = PAYLOAD) -> None:
    """These are handled while a turn is not answered, so that the next one finds all of them finished."""
    await work.quiet()
    work.host.gate(*bodies)
    offer(work, *bodies, size=size)
    firsts = {body[0]: body for body in reversed(bodies)}
    await work.runs(*firsts.values())
    await work.holds(len(bodies))
    work.lane.answering.clear()
    before = len(work.lane.calls)
    work.consumer.nudge()
    await eventually(lambda: len(work.lane.calls) > before)
    work.host.let(*bodies)
    await eventually(lambda: set(bodies) <= set(work.host.ended))
    work.lane.answering.set()


def sent_in(calls: Sequence[Call]) -> list[list[str]]:
    return [[body for body, _ in call.done] for call in calls if call.done]


def test_a_turn_ends_what_was_recorded_for_a_few_messages_only() -> None:
    """The server carries out a turn in one piece: 500 that had asked a question took 40 ms."""
    portion = Portion(PAYLOAD)
    for outcome in (Commit(once_of="m"), Suspend("m", ("q",))):
        assert portion.cut(finished(*[outcome] * 3 * MOST_RECORDS)) == MOST_RECORDS
        assert portion.cut(finished(*[NOTHING] * 500, *[outcome] * MOST_RECORDS)) == 500 + MOST_RECORDS
    assert portion.cut(finished(*[Commit()] * 500)) == 500


BODIES = [f"{key}{number}" for number in range(1, 5) for key in "ab"]


async def test_a_turn_carries_a_few_of_the_largest_bodies() -> None:
    async with working(max_payload=PAYLOAD) as work:
        await all_end_at_once(work, BODIES)
        await eventually(lambda: len(work.lane.committed) == len(BODIES))
        assert [len(part) for part in sent_in(work.lane.calls)] == [PAYLOADS, PAYLOADS]


async def test_what_does_not_pass_in_time_passes_in_smaller_portions() -> None:
    async with working(max_payload=PAYLOAD) as work:
        work.lane.most_bytes = int(1.5 * PAYLOAD)
        await all_end_at_once(work, BODIES)
        await eventually(lambda: len(work.lane.committed) == len(BODIES))
        for key in "ab":
            assert [body for body in work.lane.committed if body[0] == key] == [
                b for b in BODIES if b[0] == key
            ]
        sizes = [len(part) for part in sent_in(work.lane.calls)]
        assert sizes[:3] == [PAYLOADS, 2, 1]
        assert sizes[3:].count(2) < sizes[3:].count(1), "what failed is tried again seldom"


async def test_one_commit_that_is_larger_than_the_limit_goes_alone() -> None:
    async with working(max_payload=PAYLOAD) as work:
        await all_end_at_once(work, ["a1", "b1", "c1"], size=5 * PAYLOAD)
        await eventually(lambda: len(work.lane.committed) == 3)
        assert [len(part) for part in sent_in(work.lane.calls)] == [1, 1, 1]


async def test_the_worker_keeps_an_agent_until_its_last_commit_is_sent() -> None:
    async with working(max_payload=PAYLOAD) as work:
        await all_end_at_once(work, [f"a{number}" for number in range(1, 7)])
        await eventually(lambda: len(work.lane.committed) == 6)
        marks = [Mark.MORE in mode for call in work.lane.calls for _, mode in call.done]
        assert marks == [True, True, True, True, True, False]


async def test_a_drain_sends_all_portions_before_it_ends() -> None:
    async with working(max_payload=PAYLOAD) as work:
        await all_end_at_once(work, BODIES)
        work.consumer.drain()
        await eventually(lambda: work.lane.left)
        assert sorted(work.lane.committed) == sorted(BODIES)


def finished(*outcomes: Outcome) -> list[Ending]:
    return [(entry("a", "x"), outcome, False) for outcome in outcomes]


def test_the_limit_halves_and_grows_again() -> None:
    portion = Portion(PAYLOAD)
    heavy = Commit(outgoing=(sends(PAYLOAD),))
    assert portion.cut(finished(*[heavy] * 9)) == PAYLOADS
    limits = []
    for _ in range(14):
        portion.was_lost(finished(*[heavy] * portion.cut(finished(*[heavy] * 9))))
        limits.append(portion.limit)
    assert limits[:3] == [2 * PAYLOAD, PAYLOAD, PAYLOAD // 2]
    assert portion.cut(finished(heavy, heavy)) == 1
    for _ in range(100):
        portion.went_well(finished(heavy))
    assert portion.limit == PAYLOADS * PAYLOAD


def test_a_small_turn_that_is_lost_says_nothing_about_the_line() -> None:
    portion = Portion(PAYLOAD)
    portion.was_lost(finished(*[NOTHING] * 500, Commit(outgoing=(sends(100),))))
    assert portion.limit == PAYLOADS * PAYLOAD


def test_what_fails_again_and_again_is_tried_ever_more_seldom() -> None:
    portion, lost_at = Portion(PAYLOAD), []
    heavy = Commit(outgoing=(sends(PAYLOAD),))
    for turn in range(2000):
        sent = finished(*[heavy] * portion.cut(finished(*[heavy] * 9)))
        if len(sent) > 1:
            lost_at.append(turn)
            portion.was_lost(sent)
        else:
            portion.went_well(sent)
    pauses = [later - earlier for earlier, later in pairwise(lost_at[2:])]
    assert len(pauses) > 3
    assert pauses == sorted(pauses)


def test_what_carries_nothing_costs_nothing() -> None:
    portion = Portion(1)
    assert portion.cut(finished(*[NOTHING] * 500, Release("why"))) == 501
    assert portion.cut([]) == 0


def test_everything_large_of_an_outcome_is_counted() -> None:
    claim = Claim("blob:x", bytes(100))
    full = Commit(reply=sends(10, claim), state=(1, bytes(1000)), outgoing=(sends(10_000), sends(0, claim)))
    assert weight(full) == 11_210
    changes = (LogChange("thread", 0, (bytes(30), bytes(40))), LogChange("notes", 7, (bytes(5),)))
    assert weight(full._replace(logs=(1, changes))) == 11_285
    assert weight(DeadLetter("why", ErrorInfo("E", "m", "t" * 50), sends(7))) == 57
    assert weight(DeadLetter("why")) == 0
