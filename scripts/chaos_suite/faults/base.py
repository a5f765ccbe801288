"""The base class of the faults."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from typing import ClassVar, Final, Literal, Self

from ..figures import Figure
from ..site import Site

Act = Literal["processes", "network", "server", "loss", "timers", "above"]
"""Faults of one act share a place: see plan.py for what each act's place looks like."""

FAULTS: Final[dict[str, type[Fault]]] = {}
"""Every class that has a name; filled when its module is imported."""


class Fault(ABC):
    """One fault, as a value: its fields say how it strikes, and are drawn from the seed of the plan.

    Subclasses are frozen dataclasses.

    Attributes:
        name: for `--only`; unique.
        act: whose place it needs.
        summary: what it does, for `--list` and docs/reliability.md.
        promise: what has to hold besides the rules of checker.py, which hold always.
        figures: what it measures.
        seconds: how long it takes, about.
        mixes: it may strike while others do.
    """

    name: ClassVar[str] = ""
    act: ClassVar[Act] = "processes"
    summary: ClassVar[str] = ""
    promise: ClassVar[str] = ""
    figures: ClassVar[tuple[Figure, ...]] = ()
    seconds: ClassVar[float] = 2.0
    mixes: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if cls.name:
            FAULTS[cls.name] = cls

    @classmethod
    def draw(cls, chance: random.Random) -> Self:
        """One of its kind. A fault without fields is always the same."""
        return cls()

    @abstractmethod
    async def strike(self, site: Site) -> None:
        """Does it and undoes it: afterwards the site works again, without the help of an operator."""


def require(holds: object, problem: object) -> None:
    """What a fault's promise says has to hold.

    Raises:
        RuntimeError: it does not.
    """
    if not holds:
        raise RuntimeError(str(problem))
