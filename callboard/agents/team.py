"""What every team can do, so that it can be a member of another one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel

from callboard.foundation.component import ComponentBase

from .copying import copy_of
from .task import TaskRunner


class Team(ABC, TaskRunner, ComponentBase[BaseModel]):
    """Several agents who carry out tasks together."""

    component_type = "team"

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name, which nobody else in a larger team has."""
        ...

    @property
    @abstractmethod
    def description(self) -> str:
        """What it can do, for those who choose who speaks."""
        ...

    @abstractmethod
    async def reset(self) -> None:
        """Be as in the beginning, with all members."""
        ...

    @abstractmethod
    async def pause(self) -> None:
        """Let nobody begin to speak until `resume`."""
        ...

    @abstractmethod
    async def resume(self) -> None:
        """Go on after `pause`."""
        ...

    @abstractmethod
    async def save_state(self) -> Mapping[str, Any]:
        """All that team and members remember, as plain data."""
        ...

    @abstractmethod
    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned."""
        ...

    def for_conversation(self) -> Self:
        """A team like this one, for another conversation; its members are copied by their own `for_conversation`.

        Raises:
            ConversationError: Something in it can't be copied (a TypeError).
        """
        return copy_of(self)
