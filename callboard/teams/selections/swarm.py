"""Members hand over to each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from callboard.agents.task import Said
from callboard.messages.base import BaseChatMessage
from callboard.messages.chat import HandoffMessage
from callboard.teams.errors import HandoffTargetError
from callboard.teams.selection import Choice, Floor, SpeakerSelection


class SwarmState(BaseModel):
    """Whose turn it is.

    Attributes:
        current_speaker: Who was asked last; None: nobody.
    """

    current_speaker: str | None = None


class SwarmSelection(SpeakerSelection):
    """The target of the last HandoffMessage, at first the first member; AutoGen's SwarmGroupChatManager.

    AutoGen's walks back through the whole conversation at each turn; this one remembers whose turn it is.
    """

    def __init__(self) -> None:
        self._speaker: str | None = None

    async def check(self, messages: Sequence[BaseChatMessage] | None, floor: Floor) -> None:
        """Refuses a task as long as nobody of the team has been handed over to, as after a HandoffTermination.

        Raises:
            HandoffTargetError: The last handoff has a target that is no member (a ValueError).
        """
        given = _last_target(messages or ())
        if given is not None:
            if given not in floor.names:
                raise HandoffTargetError(given, floor.names)
            return
        target = self._next(floor)
        if target not in floor.names:
            raise HandoffTargetError(target, floor.names, "existing handoff target")

    async def select(self, floor: Floor) -> Choice:
        """Who was handed over to, or who spoke last."""
        target = self._next(floor)
        if target not in floor.names:
            raise HandoffTargetError(target, floor.names)
        self._speaker = target
        return Choice([target])

    def _next(self, floor: Floor) -> str:
        return _last_target(floor.new) or self._speaker or floor.members[0].name

    async def reset(self) -> None:
        """The first one is next."""
        self._speaker = None

    async def save_state(self) -> Mapping[str, Any]:
        """Whose turn it is."""
        return SwarmState(current_speaker=self._speaker).model_dump()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned."""
        self._speaker = SwarmState.model_validate(dict(state)).current_speaker


def _last_target(messages: Iterable[Said]) -> str | None:
    targets = [message.target for message in messages if isinstance(message, HandoffMessage)]
    return targets[-1] if targets else None
