"""A team as its manager on the bus sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from callboard.conditions.base import TerminationCondition

from .local import Participant
from .loop import TeamPlan
from .selection import SpeakerSelection


@runtime_checkable
class LedTeam(Protocol):
    """A team that a manager on the bus can lead: its members become actors of their own."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def description(self) -> str:
        """What it can do."""
        ...

    @property
    def plan(self) -> TeamPlan:
        """What the turn loop has to know."""
        ...

    @property
    def participants(self) -> Sequence[Participant]:
        """The members."""
        ...

    @property
    def termination_condition(self) -> TerminationCondition | None:
        """When a run ends; each conversation has a copy."""
        ...

    def new_selection(self) -> SpeakerSelection:
        """The strategy of a new conversation."""
        ...
