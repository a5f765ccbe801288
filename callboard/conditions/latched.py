"""The base of conditions that are reached once something has happened."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from callboard.messages.chat import StopMessage

from .base import Messages, TerminationCondition
from .errors import TerminatedException
from .saved import read_state


class LatchedTermination(TerminationCondition, ABC):
    """A condition that remembers nothing but that it has been reached. Derive from it and write `reason`."""

    def __init__(self) -> None:
        self._terminated = False

    @abstractmethod
    async def reason(self, messages: Messages) -> str | None:
        """Why a conversation ends in which this is said; None: it goes on.

        Args:
            messages: What was said since the last call.
        """
        ...

    @property
    def terminated(self) -> bool:
        """Whether it has been reached."""
        return self._terminated

    async def __call__(self, messages: Messages) -> StopMessage | None:
        """Look at what is new; see `TerminationCondition`."""
        if self._terminated:
            raise TerminatedException
        text = await self.reason(messages)
        if text is None:
            return None
        self._terminated = True
        return StopMessage(content=text, source=type(self).__name__)

    async def reset(self) -> None:
        """Be as in the beginning."""
        self._terminated = False

    async def save_state(self) -> Mapping[str, Any]:
        """Whether it has been reached."""
        return {"terminated": self._terminated}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned.

        Raises:
            ConditionStateError: It is no such state (a ValueError).
        """
        self._terminated = read_state(_State, state, self).terminated


class _State(BaseModel):
    terminated: bool
