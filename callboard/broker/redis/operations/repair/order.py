"""Which entries of a wait list stand where they were not published."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TypeAlias

SORTED_AT_ONCE = 500  # as in lua/repair/order.lua: a list that is no longer is sorted as a whole

Place: TypeAlias = tuple[int, int]

URGENT: Place = (-1, -1)  # a reset is before everything else


def misplaced(refs: Sequence[str]) -> Iterator[str]:
    """What has to be moved, as few entries as possible, in the order in which they were published.

    Args:
        refs: a wait list; what is no ref in it is for others to find.

    Yields:
        `<ref>|<ref that it belongs before>`, the latter "" for the end of the list; or once "" for a short list.
    """
    known = [(place, ref) for ref in refs if (place := _place(ref)) is not None]
    places = [place for place, _ in known]
    if all(places[i - 1] <= places[i] for i in range(1, len(places))):
        return
    if len(refs) <= SORTED_AT_ONCE:
        yield ""
        return
    stay = _longest_rising(places)
    standing = set(stay)
    standing_places = [places[i] for i in stay]
    moved = sorted(set(range(len(known))) - standing, key=lambda i: places[i])
    for place, ref in dict.fromkeys(known[i] for i in moved):  # what is named twice is moved once
        after = bisect_right(standing_places, place)
        yield f"{ref}|{known[stay[after]][1] if after < len(stay) else ''}"


def _place(ref: str) -> Place | None:
    suffix, _, entry = ref.partition(" ")
    if suffix.startswith("urgent:"):
        return URGENT
    first, _, second = entry.partition("-")
    return (int(first), int(second)) if first.isdecimal() and second.isdecimal() else None


def _longest_rising(places: Sequence[Place]) -> list[int]:
    """The numbers of the most places that are in order already (patience sorting)."""
    tails: list[Place] = []  # the lowest end of a rising row of each length
    ends: list[int] = []  # which place that is
    before: list[int] = []
    for i, place in enumerate(places):
        length = bisect_right(tails, place)
        before.append(ends[length - 1] if length else -1)
        tails[length : length + 1] = [place]
        ends[length : length + 1] = [i]
    row = [ends[-1]] if ends else []
    while row and before[row[-1]] >= 0:
        row.append(before[row[-1]])
    return row[::-1]
