"""What a row of the table is, and how much of it is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .site import Site

BACKLOG = 200_000


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured.

    Attributes:
        quick: for a look, not for a record.
        backlog: messages of the longest queue.
    """

    quick: bool
    backlog: int = BACKLOG

    def of(self, count: int) -> int:
        """Messages of a measurement."""
        return count // 4 if self.quick else count


Sample = dict[str, float]
"""The figures of one run, by name; those of yardsticks begin with `raw `."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    Attributes:
        name: for `--only`.
        what: what was measured.
        unit: of the figures.
        measure: one run.
        good: target of a good first version, in `unit`.
        goal: where to go.
        lower_is_better: whether small figures are good ones.
        times_raw: show the figure in proportion to the yardstick.
    """

    name: str
    what: str
    unit: str
    measure: Callable[[Site, Size], Sample]
    good: tuple[float, ...]
    goal: tuple[float, ...]
    lower_is_better: bool = False
    times_raw: bool = True
