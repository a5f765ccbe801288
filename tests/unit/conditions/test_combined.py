"""`|` and `&` of termination conditions."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from callboard.conditions import (
    AndTerminationCondition,
    ConditionStateError,
    ExternalTermination,
    MaxMessageTermination,
    OrTerminationCondition,
    StopMessageTermination,
    TerminatedException,
    TerminationCondition,
    TextMentionTermination,
)
from callboard.messages import StopMessage, TextMessage

HELLO = TextMessage(content="hello", source="a")
DONE = TextMessage(content="DONE", source="a")
STOP = StopMessage(content="DONE", source="a")


def one() -> TerminationCondition:
    return MaxMessageTermination(2) | TextMentionTermination("DONE")


def both() -> TerminationCondition:
    return MaxMessageTermination(2) & TextMentionTermination("DONE")


def nested() -> TerminationCondition:
    return (MaxMessageTermination(3) & TextMentionTermination("DONE")) | StopMessageTermination()


def test_the_operators_make_combinations() -> None:
    assert isinstance(one(), OrTerminationCondition)
    assert isinstance(both(), AndTerminationCondition)


async def test_one_of_two_is_enough() -> None:
    condition = one()

    assert await condition([HELLO]) is None
    stop = await condition([DONE])

    assert stop is not None
    assert (
        stop.content
        == "Maximum number of messages 2 reached, current message count: 2, Text 'DONE' mentioned"
    )
    assert stop.source == "MaxMessageTermination, TextMentionTermination"
    assert condition.terminated


async def test_both_are_needed_each_at_its_own_time() -> None:
    condition = both()

    assert await condition([DONE]) is None
    assert not condition.terminated
    stop = await condition([HELLO])

    assert stop is not None
    assert (
        stop.content
        == "Text 'DONE' mentioned, Maximum number of messages 2 reached, current message count: 2"
    )
    assert stop.source == "TextMentionTermination, MaxMessageTermination"
    assert condition.terminated


async def test_conditions_of_an_and_that_were_reached_are_not_asked_again() -> None:
    condition = StopMessageTermination() & MaxMessageTermination(3)

    assert await condition([STOP]) is None
    assert await condition([STOP]) is None
    stop = await condition([STOP])

    assert stop is not None
    assert stop.content.startswith("Stop message received, Maximum")


@pytest.mark.parametrize("make", [one, both])
async def test_a_reached_combination_raises_until_it_is_reset(make: type[TerminationCondition]) -> None:
    condition = make()
    first = await condition([HELLO, DONE])

    with pytest.raises(TerminatedException):
        await condition([])
    await condition.reset()

    assert not condition.terminated
    assert await condition([]) is None
    second = await condition([HELLO, DONE])
    assert first is not None
    assert second is not None
    assert second.content == first.content


async def test_a_nested_combination_goes_on_from_its_state() -> None:
    before, after = nested(), nested()
    assert await before([DONE, HELLO]) is None

    await after.load_state(json.loads(json.dumps(await before.save_state())))
    stop = await after([HELLO])

    assert stop is not None
    assert (
        stop.content
        == "Text 'DONE' mentioned, Maximum number of messages 3 reached, current message count: 3"
    )


async def test_copies_of_a_nested_combination_count_for_themselves() -> None:
    first = nested()
    second = copy.deepcopy(first)
    await first([STOP])

    assert first.terminated
    assert not second.terminated
    assert await second([HELLO, HELLO]) is None


async def test_the_state_of_another_combination_is_refused() -> None:
    three = MaxMessageTermination(1) & ExternalTermination() & StopMessageTermination()

    with pytest.raises(ConditionStateError, match="combines 2 conditions, and the state is that of 3"):
        await AndTerminationCondition(ExternalTermination(), StopMessageTermination()).load_state(
            await AndTerminationCondition(
                MaxMessageTermination(1), ExternalTermination(), StopMessageTermination()
            ).save_state()
        )
    with pytest.raises(ConditionStateError, match="MaxMessageTermination can't load this state"):
        await one().load_state(await three.save_state())


@pytest.mark.parametrize("other", ["DONE", None, TextMentionTermination])
def test_only_conditions_are_combined(other: Any) -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = MaxMessageTermination(2) | other
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = MaxMessageTermination(2) & other
