"""What has to be moved so that a wait list is in the order of publishing."""

from __future__ import annotations

import random

import pytest

from callboard.broker.redis.operations.repair import SORTED_AT_ONCE, misplaced

LENGTH = 3 * SORTED_AT_ONCE
IN_ORDER = [f"topic:t{i % 3} {1000 + i // 2}-{i % 2}" for i in range(LENGTH)]


def move(refs: list[str], pairs: list[str]) -> list[str]:
    """What the server does."""
    for pair in pairs:
        ref, before = pair.split("|")
        refs.remove(ref)
        refs.insert(refs.index(before) if before else len(refs), ref)
    return refs


def order(ref: str) -> tuple[int, ...]:
    return tuple(int(part) for part in ref.partition(" ")[2].split("-"))


def test_nothing_of_a_list_in_order_is_moved() -> None:
    assert list(misplaced([])) == []
    assert list(misplaced(["urgent:counter:a 9000-0", *IN_ORDER, "junk"])) == []


@pytest.mark.parametrize("moved", [1, 7, LENGTH])
@pytest.mark.parametrize("seed", range(3))
def test_as_few_as_possible_are_moved(moved: int, seed: int) -> None:
    chance = random.Random(seed)
    refs = list(IN_ORDER)
    for _ in range(moved):
        refs.insert(chance.randrange(LENGTH), refs.pop(chance.randrange(LENGTH)))
    pairs = list(misplaced(refs))
    assert 0 < len(pairs) <= moved
    assert [order(ref) for ref in move(refs, pairs)] == [order(ref) for ref in IN_ORDER]


def test_a_short_list_is_sorted_as_a_whole() -> None:
    assert list(misplaced(IN_ORDER[:10][::-1])) == [""]
