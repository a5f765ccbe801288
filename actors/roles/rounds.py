"""How often a role acts in what follows from a message, where nothing else is said, and a warning where that ends a loop."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from .message import Message

logger = logging.getLogger("callboard.roles")

ROUNDS: Final = 3  # as often as MetaGPT's Team runs


class Rounds:
    """Tells once of each message that was not answered because the usual number of rounds was over.

    Who has chosen another number knows what it does.
    """

    def __init__(self) -> None:
        self._told: set[str] = set()

    def tell(self, project: str, cut_short: Sequence[Message]) -> None:
        """Warn of those that are new."""
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
