"""One after the other."""

from __future__ import annotations

from collections.abc import Mapping

from callboard.groupchat.handoffs.agent_targets import AgentTarget
from callboard.groupchat.handoffs.target import TransitionTarget

from .pattern import Pattern


class RoundRobinPattern(Pattern):
    """One agent after the other: the initial one, the others in their order, the user's, and from the beginning.

    It takes the place of what agents do after work; other handoffs go before it. See Pattern.
    """

    def after_works(self) -> Mapping[str, TransitionTarget]:
        """The next one."""
        others = [agent for agent in self.everybody() if agent is not self.initial_agent]
        order = [self.initial_agent, *others]
        return {
            agent.name: AgentTarget(after) for agent, after in zip(order, [*order[1:], order[0]], strict=True)
        }
