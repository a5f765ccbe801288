"""One agent on the bus, without others."""

from __future__ import annotations

from callboard.agents.chat_agent import ChatAgent

from .group_chat import BaseGroupChat
from .selection import SpeakerSelection
from .selections.round_robin import RoundRobinSelection


class SoloAgent(BaseGroupChat):
    """An agent that answers every task with one turn, as an actor of its own: ``app.team(SoloAgent(assistant))``.

    Its conversations go on after a crash, as those of larger teams do.

    Args:
        agent: The agent.
        name: Its agent type; None: the agent's name.
    """

    def __init__(self, agent: ChatAgent, *, name: str | None = None) -> None:
        super().__init__(
            [agent],
            name=name or agent.name,
            description=agent.description,
            manager_name=name or agent.name,
            max_turns=1,
        )

    def new_selection(self) -> SpeakerSelection:
        """There is only one to choose."""
        return RoundRobinSelection()
