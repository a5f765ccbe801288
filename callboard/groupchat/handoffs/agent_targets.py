"""Agents as targets."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from callboard.groupchat.agent import Agent, names_of
from callboard.groupchat.errors import HandoffError

from .target import SpeakerSelectionResult, TransitionTarget, Whereabouts


@dataclass(frozen=True)
class AgentNameTarget(TransitionTarget):
    """The agent of a name.

    Args:
        agent_name: Its name.
    """

    kind: ClassVar[str] = "agent"

    agent_name: str

    def resolve(self, at: Whereabouts) -> SpeakerSelectionResult:
        """The agent."""
        return SpeakerSelectionResult(agent_name=self.agent_name)

    def display_name(self) -> str:
        """Its name."""
        return self.agent_name

    def names(self) -> list[str]:
        """The same."""
        return [self.agent_name]

    def dump(self) -> dict[str, Any]:
        """As plain data."""
        return {**super().dump(), "agent_name": self.agent_name}

    __str__ = TransitionTarget.__str__


class AgentTarget(AgentNameTarget):
    """An agent. It is kept by its name.

    Args:
        agent: The agent.

    Raises:
        HandoffError: It is none (a TypeError and a ValueError).
    """

    def __init__(self, agent: Agent) -> None:
        _check_agents([agent])
        super().__init__(agent.name)

    def __repr__(self) -> str:
        return f"AgentTarget({self.agent_name!r})"


@dataclass(frozen=True, init=False)
class RandomAgentTarget(TransitionTarget):
    """Any of some agents but the one who hands over; where there is no other, the chat is over.

    Args:
        agents: These.

    Raises:
        HandoffError: One is no agent (a TypeError and a ValueError).
    """

    kind: ClassVar[str] = "random"

    agent_names: tuple[str, ...]

    def __init__(self, agents: Sequence[Agent]) -> None:
        _check_agents(agents)
        object.__setattr__(self, "agent_names", tuple(names_of(agents)))

    @classmethod
    def of(cls, names: Sequence[str]) -> RandomAgentTarget:
        """The target of these names."""
        made = cls(())
        object.__setattr__(made, "agent_names", tuple(names))
        return made

    def resolve(self, at: Whereabouts) -> SpeakerSelectionResult:
        """One of them."""
        others = [name for name in self.agent_names if name != at.current]
        if not others:
            return SpeakerSelectionResult(terminate=True)
        return SpeakerSelectionResult(agent_name=random.choice(others))

    def display_name(self) -> str:
        """For people."""
        return "a random agent"

    def normalized_name(self) -> str:
        """A part of the name of the tool."""
        return "random_agent"

    def names(self) -> list[str]:
        """The agents."""
        return list(self.agent_names)

    def dump(self) -> dict[str, Any]:
        """As plain data."""
        return {**super().dump(), "agent_names": list(self.agent_names)}

    __str__ = TransitionTarget.__str__


def _check_agents(agents: Sequence[object]) -> None:
    for agent in agents:
        if not isinstance(agent, Agent):
            raise HandoffError(
                f"A {type(agent).__name__} is no agent: give the agent itself, or AgentNameTarget('name')."
            )
