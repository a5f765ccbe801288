"""A dispatcher whose handoffs stay as they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from callboard.agents.handoff import Handoff

from .base import AbstractDispatcher
from .entries import check_handoff
from .errors import DuplicateHandoffError


class Dispatcher(AbstractDispatcher):
    """A list of handoffs.

    The program wrote it, so nobody has to be authorized. The proposal's keeps the last of two handoffs with one name.

    Args:
        handoffs: The handoffs.

    Raises:
        NotAHandoffError: One is none (a TypeError).
        HandoffDeclarationError: One can't be shown to models (a ValueError).
        DuplicateHandoffError: Two have one name (a ValueError).
    """

    def __init__(self, handoffs: Iterable[Handoff] = ()) -> None:
        self._handoffs: dict[str, Handoff] = {}
        for handoff in handoffs:
            name = check_handoff(handoff).name
            if name in self._handoffs:
                raise DuplicateHandoffError(name)
            self._handoffs[name] = handoff

    @property
    def handoffs(self) -> list[Handoff]:
        """All handoffs, in their order."""
        return list(self._handoffs.values())

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # it never changes
