"""One after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callboard.teams.selection import Choice, Floor, SpeakerSelection


class RoundRobinSelection(SpeakerSelection):
    """Everybody in the order in which the team was given them, again and again, also from one run to the next."""

    def __init__(self) -> None:
        self._next = 0

    async def select(self, floor: Floor) -> Choice:
        """The next one."""
        speaker = floor.members[self._next % len(floor.members)].name
        self._next = (self._next + 1) % len(floor.members)
        return Choice([speaker])

    async def reset(self) -> None:
        """The first one is next."""
        self._next = 0

    async def save_state(self) -> Mapping[str, Any]:
        """Whose turn it is."""
        return {"next_speaker_index": self._next}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned."""
        self._next = int(state["next_speaker_index"])
