"""When a run of a group chat ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from callboard.conditions.base import Messages
from callboard.conditions.latched import LatchedTermination
from callboard.messages.base import BaseChatMessage
from callboard.messages.chat import StopMessage

from .agent import Message
from .message import as_message

OVER: Final = "Termination message condition on the GroupChatManager '{name}' met"
LAST_ROUND: Final = "Maximum rounds ({count}) reached"


class GroupChatTermination(LatchedTermination):
    """Is reached by a termination message, by the last round, and when somebody has no answer.

    Args:
        is_over: Whether a message ends the chat.
        manager: Name of the manager.
        max_round: How many messages a run has.
        rounds: How many it has had already, for one that is resumed.
    """

    def __init__(
        self, is_over: Callable[[Message], bool], manager: str, max_round: int, *, rounds: int = 0
    ) -> None:
        super().__init__()
        self._is_over = is_over
        self._manager = manager
        self._most = max_round
        self._rounds = rounds

    @property
    def rounds(self) -> int:
        """How many messages the run has had."""
        return self._rounds

    def __deepcopy__(self, memo: dict[int, Any]) -> GroupChatTermination:
        """For another conversation; what it asks stays the same."""
        return GroupChatTermination(self._is_over, self._manager, self._most, rounds=self._rounds)

    async def heard(self, message: Message, source: str) -> None:
        """A message was said; here: nothing follows."""

    async def reason(self, messages: Messages) -> str | None:
        """Why it ends."""
        for said in messages:
            if isinstance(said, StopMessage):
                return said.content
            if isinstance(said, BaseChatMessage) and (reason := await self._reason(said)):
                return reason
        return None

    async def _reason(self, said: BaseChatMessage) -> str | None:
        message = as_message(said)
        self._rounds += 1
        await self.heard(message, said.source)
        if self._is_over(message):
            return OVER.format(name=self._manager)
        return LAST_ROUND.format(count=self._most) if self._rounds >= self._most else None

    async def reset(self) -> None:
        """A run of its own begins."""
        await super().reset()
        self._rounds = 0

    async def save_state(self) -> Mapping[str, Any]:
        """What it counts."""
        return {**await super().save_state(), "rounds": self._rounds}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned.

        Raises:
            ConditionStateError: It is no such state (a ValueError).
        """
        await super().load_state({"terminated": state.get("terminated")})
        self._rounds = int(state.get("rounds", 0))
