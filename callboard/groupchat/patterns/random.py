"""Any of the others."""

from __future__ import annotations

from collections.abc import Mapping

from callboard.groupchat.handoffs.agent_targets import RandomAgentTarget
from callboard.groupchat.handoffs.target import TransitionTarget

from .pattern import Pattern


class RandomPattern(Pattern):
    """Any agent but the one who spoke, the user's included.

    It takes the place of what agents do after work; other handoffs go before it. See Pattern.
    """

    def after_works(self) -> Mapping[str, TransitionTarget]:
        """Any other."""
        everybody = self.everybody()
        return {
            agent.name: RandomAgentTarget([other for other in everybody if other is not agent])
            for agent in everybody
        }
