"""A chat manager as a strategy of the turn loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from callboard.groupchat.waiting import value_of
from callboard.teams.selection import Choice, Floor, SpeakerSelection

from .chat_managers import ChatManagerProtocol
from .so_far import SoFar

NOBODY: Final = "The chat manager chose nobody."


class ManagedSelection(SpeakerSelection):
    """Whom the chat manager names.

    Args:
        manager: The chat manager.
    """

    def __init__(self, manager: ChatManagerProtocol) -> None:
        self._manager = manager
        self._so_far = SoFar()

    async def select(self, floor: Floor) -> Choice:
        """Ask the manager."""
        self._so_far.add(floor.thread[len(self._so_far.said) :])
        agent = await value_of(self._manager.get_next_agent(self._so_far))
        return Choice(stop=NOBODY) if agent is None else Choice([agent.name])

    async def reset(self) -> None:
        """Nothing was said."""
        self._so_far = SoFar()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """The thread is another one."""
        await self.reset()
