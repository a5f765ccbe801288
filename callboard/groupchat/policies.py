"""Further rules of who may speak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from .agent import Agent
from .errors import NoEligibleSpeakerError


@dataclass(frozen=True)
class SelectionContext:
    """What a policy is told.

    Attributes:
        round: How many messages there are so far; 1 when a chat begins.
        last_speaker: Who spoke last; None: nobody.
        participants: The names of the whole group.
    """

    round: int
    last_speaker: str | None
    participants: tuple[str, ...]


@runtime_checkable
class AgentEligibilityPolicy(Protocol):
    """Says whether an agent may speak next."""

    def is_eligible(self, agent: Agent, ctx: SelectionContext) -> bool:
        """Whether it may."""
        ...


def eligible(
    agents: Sequence[Agent], policies: Sequence[AgentEligibilityPolicy], context: SelectionContext
) -> list[Agent]:
    """The agents whom every policy lets speak.

    Raises:
        NoEligibleSpeakerError: There are none.
    """
    left = [agent for agent in agents if all(policy.is_eligible(agent, context) for policy in policies)]
    if not left:
        raise NoEligibleSpeakerError("The eligibility policies let nobody speak.")
    return left
