"""Where the events of a run come from, and where orders to it go: a run of this process, or one on the bus."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from callboard.agents.task import Said, TaskResult
from callboard.models.run_usage import RunUsage

from .event import Event

RunState: TypeAlias = Literal["working", "input_required", "paused", "completed", "failed", "cancelled"]
"""How a run stands; the last three are for good."""


class RunSource(ABC):
    """One run, under way or over."""

    @property
    @abstractmethod
    def run_id(self) -> str:
        """Its id."""
        ...

    @abstractmethod
    def read(self, after: int, drafts: bool) -> AsyncGenerator[Sequence[Event], None]:
        """Its events, in portions, up to the last one of the run.

        Args:
            after: Number of the event behind which to begin; 0: from the start.
            drafts: Whether events are wanted that may not count.
        """
        ...

    @abstractmethod
    async def state(self) -> RunState:
        """How it stands."""
        ...

    @abstractmethod
    async def result(self) -> TaskResult:
        """What came of it; waits for the end.

        Raises:
            RunCancelledError: It was cancelled (a RuntimeError).
            TeamRunError: It has failed (a RuntimeError).
        """
        ...

    @abstractmethod
    async def wait(self) -> None:
        """Until it has ended, however."""
        ...

    @abstractmethod
    async def said(self) -> Sequence[Said]:
        """Everything that was said and happened until now."""
        ...

    @abstractmethod
    async def cost(self) -> RunUsage:
        """What its models used until now."""
        ...

    @abstractmethod
    async def answer(self, request_id: str, value: Any, by: str) -> None:
        """Answer a question."""
        ...

    @abstractmethod
    async def cancel(self) -> None:
        """End it now; nothing is done when it is over."""
        ...

    @abstractmethod
    async def pause(self) -> bool:
        """Let nobody begin to speak."""
        ...

    @abstractmethod
    async def resume(self) -> bool:
        """Let it go on."""
        ...

    @abstractmethod
    async def step(self) -> bool:
        """Let its next turn begin, if it waits for that."""
        ...


def without_team(usage: RunUsage, team: str) -> RunUsage:
    """The usage of a run with the agents' own names, as its events have them.

    Args:
        usage: The usage.
        team: Name of the team, which stays that of its manager.
    """
    parts = (replace(part, agent=part.agent.removeprefix(f"{team}.")) for part in usage.parts)
    return replace(usage, parts=tuple(parts))
