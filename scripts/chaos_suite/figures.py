"""The figures that are measured, and how they compare with the expected ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Figure:
    """Something that a fault measures.

    Attributes:
        what: a row of the table.
        at_most: the expectation.
        unit: `s`, `ms`, or "" for a number.
    """

    what: str
    at_most: float
    unit: str = "s"

    def shown(self, value: float) -> str:
        """A value with as many digits as it deserves."""
        return f"{value:.2f} {self.unit}" if self.unit == "s" else f"{value:.0f} {self.unit}".rstrip()


class Measured(NamedTuple):
    """One measurement."""

    figure: Figure
    value: float

    @property
    def holds(self) -> bool:
        return self.value <= self.figure.at_most


def worst(measured: list[Measured]) -> list[Measured]:
    """The largest value of each figure, in the order in which they were measured first."""
    found: dict[str, Measured] = {}
    for one in measured:
        before = found.get(one.figure.what)
        if before is None or one.value > before.value:
            found[one.figure.what] = one
    return list(found.values())
