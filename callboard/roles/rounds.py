"""How often a role acts in what follows from a message, and a warning where that ends a loop and nobody has chosen it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from callboard.suspension import UNSET, Unset

from .checking import check_count
from .message import Message

logger = logging.getLogger("callboard.roles")

ROUNDS: Final = 3  # as often as MetaGPT's Team runs


class Rounds:
    """The bound of an environment for messages that say nothing else.

    It tells once of each message that was not answered because the usual number of rounds was over. Who has chosen a number,
    for all or for each message, knows what it does.

    Args:
        most: How often each role acts in what follows from a message; None: without end; UNSET: the usual number.

    Raises:
        RoleDeclarationError: It is below 1 (a ValueError).
    """

    def __init__(self, most: int | Unset | None) -> None:
        self._most: int | None = ROUNDS
        self._is_chosen = False
        self._bounded, self._left = 0, 0  # messages that got this bound, and that had one of their own
        self._told: set[str] = set()
        if not isinstance(most, Unset):
            self.most = most

    @property
    def most(self) -> int | None:
        """The bound."""
        return self._most

    @most.setter
    def most(self, most: int | None) -> None:
        if most is not None:
            check_count("max_rounds", most)
        self._most, self._is_chosen = most, True

    def alike(self) -> Rounds:
        """The same for another project."""
        return Rounds(self._most if self._is_chosen else UNSET)

    def bounded(self, message: Message) -> Message:
        """The message with this bound, unless it has one of its own."""
        if message.max_rounds is not None:
            self._left += 1
            return message
        self._bounded += 1
        return message.model_copy(update={"max_rounds": self._most})

    def tell(self, project: str, cut_short: Sequence[Message]) -> None:
        """Warn of those that are new."""
        if self._is_chosen or (self._left and not self._bounded):
            return
        new = [one for one in cut_short if one.max_rounds == ROUNDS and one.id not in self._told]
        if not new:
            return
        self._told.update(one.id for one in new)
        logger.warning(
            "project %s: %d messages were not answered, such as one of %s: each role has acted its max_rounds=%d times. "
            "`cut_short` of the Environment has them; for more give it max_rounds, or Team.run n_round",
            project,
            len(new),
            new[0].sent_from or "a user",
            ROUNDS,
        )
