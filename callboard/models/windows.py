"""Limits over a time that moves on, such as requests in any minute: their windows, and those of one process."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

Amounts: TypeAlias = Mapping[str, float]
"""`requests`, `tokens` and `usd`; -1 USD: the price is not known, and no limit in money allows it."""

Window: TypeAlias = tuple[str, float]
"""A scope such as "client:gpt-4o", and seconds."""


Ceiling: TypeAlias = tuple[str, float, str, float]
"""The most that may begin within a window: scope, seconds, "requests", "tokens" or "usd", and the most."""

Over: TypeAlias = tuple[str, float, str, float, float, float | None, float]
"""A ceiling that leaves no room for a request, what is used below it or set aside, seconds until there is room (None: never,
since the request needs more than the ceiling allows), and seconds more for those who were refused just before."""


# The numbers of window.lua, which does the same on a server; seconds.
SLICES: Final = 60
SHORTEST: Final = 1.0
SLACK: Final = 1.0
"""Seconds from the answer that there is room until a request has reached its model, at most."""
ASK_AGAIN: Final = 1.0
MANY: Final = 1_000  # windows, beyond which those in which nothing is any more are forgotten


@dataclass(slots=True)
class _Used:
    """One window: what began in each slice, and what is set aside for requests under way."""

    length: float
    slices: dict[int, dict[str, float]] = field(default_factory=dict)
    held: dict[str, tuple[int, Amounts]] = field(default_factory=dict)

    @property
    def slice_length(self) -> float:
        return max(SHORTEST, self.length / SLICES)

    def ends_of(self, number: int) -> float:
        """When nothing of a slice is in the window any more."""
        return (number + 1) * self.slice_length + self.length + SLACK

    def move_on(self, now: float) -> None:
        """Forget what is out of the window."""
        self.slices = {number: sums for number, sums in self.slices.items() if self.ends_of(number) > now}
        self.held = {name: held for name, held in self.held.items() if held[0] in self.slices}

    def used(self, unit: str) -> float:
        return math.fsum(sums[unit] for sums in self.slices.values())

    def wait_for(self, unit: str, amount: float, most: float, now: float) -> float | None:
        """Seconds until there is room; 0: there is; None: never."""
        if amount < 0 or amount > most:
            return None
        used = self.used(unit)
        if used + amount <= most:
            return 0.0
        wait, left = 0.0, used
        for number in sorted(self.slices):
            left, wait = left - self.slices[number][unit], self.ends_of(number) - now
            if left + amount <= most:
                break
        held = math.fsum(may_give_back(unit, amounts[unit]) for _, amounts in self.held.values())
        return min(wait, ASK_AGAIN) if used - held + amount <= most else wait

    def count(self, name: str, amounts: Amounts, now: float) -> None:
        number = int(now // self.slice_length)
        self._add(number, amounts, 1)
        self.held[name] = (number, amounts)

    def settle(self, name: str, used: Amounts) -> None:
        held = self.held.pop(name, None)
        if held is not None:
            number, amounts = held
            self._add(number, amounts, -1)
            self._add(number, used, 1)

    def _add(self, number: int, amounts: Amounts, sign: int) -> None:
        sums = self.slices.setdefault(number, dict.fromkeys(amounts, 0.0))
        for unit, amount in amounts.items():
            sums[unit] = max(0.0, sums[unit] + sign * amount)


def may_give_back(unit: str, held: float) -> float:
    """The most of what is set aside for a request that it may turn out not to need: it is one request itself."""
    return max(0.0, held - 1) if unit == "requests" else held


class LocalWindows:
    """Windows in this process. No method awaits anything, so each runs as a whole.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._windows: dict[Window, _Used] = {}
        self._many = MANY

    def enter(self, name: str, amounts: Amounts, ceilings: Sequence[Ceiling]) -> Over | None:
        """As `Store.enter` has it."""
        now, over, windows = self._clock(), list[Over](), dict[Window, _Used]()
        if len(self._windows) > self._many:
            self._forget(now)
        for scope, seconds, unit, most in ceilings:
            window = self._windows.setdefault((scope, seconds), _Used(seconds))
            windows[scope, seconds] = window
            window.move_on(now)
            wait = window.wait_for(unit, amounts[unit], most, now)
            if wait != 0:
                over.append((scope, seconds, unit, most, window.used(unit), wait, 0.0))
        if over:
            return max(over, key=lambda one: math.inf if one[5] is None else one[5])
        for window in windows.values():
            window.count(name, {**amounts, "usd": max(0.0, amounts["usd"])}, now)
        return None

    def leave(self, name: str, used: Amounts, windows: Iterable[Window]) -> None:
        """As `Store.leave` has it."""
        for key in windows:
            window = self._windows.get(key)
            if window is not None:
                window.settle(name, used)

    def _forget(self, now: float) -> None:
        for key, window in list(self._windows.items()):
            window.move_on(now)
            if not window.slices:
                del self._windows[key]
        self._many = max(MANY, 2 * len(self._windows))
