"""Runs that wait for their reader: the next turn begins only when somebody wants to see it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from pydantic import Field

from callboard.memory.contexts.conversation import Conversation
from callboard.messages.base import BaseAgentEvent, BaseChatMessage
from callboard.teams.group_chat import BaseGroupChat
from callboard.teams.selection import Choice, Floor, SpeakerSelection

T = TypeVar("T")


class Steps:
    """Holds a run of this process back between turns."""

    def __init__(self) -> None:
        self._wanted = asyncio.Event()
        self._is_over = False

    def hold(self) -> None:
        """There is something new to read."""
        if not self._is_over:
            self._wanted.clear()

    def stop(self) -> None:
        """Nobody reads step by step any more: somebody waits for the end."""
        self._is_over = True
        self._wanted.set()

    def allow(self) -> bool:
        """The next turn may begin, although nobody reads; False when it may already."""
        is_new = not self._wanted.is_set()
        self._wanted.set()
        return is_new

    async def wanted(self, more: Awaitable[T]) -> T:
        """A reader has seen everything, and waits for more."""
        self._wanted.set()
        try:
            return await more
        finally:
            self.hold()

    async def take(self, floor: Floor) -> None:
        """Wait until everything so far was read, and more is wanted.

        Args:
            floor: Lets the reader's side know how far it is.
        """
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await floor.show(StepTaken(source=floor.team, reached=reached))
        await reached
        await self._wanted.wait()


class SteppedSelection(SpeakerSelection):
    """Chooses as another one does, but only when a reader wants to see more.

    Args:
        selection: The other one.
        steps: Of the run.
    """

    def __init__(self, selection: SpeakerSelection, steps: Steps) -> None:
        self._selection = selection
        self._steps = steps

    async def select(self, floor: Floor) -> Choice:
        """Wait, and choose."""
        await self._steps.take(floor)
        return await self._selection.select(floor)

    async def after_round(self, floor: Floor) -> str | None:
        """See SpeakerSelection."""
        return await self._selection.after_round(floor)

    async def check(self, messages: Sequence[BaseChatMessage] | None, floor: Floor) -> None:
        """See SpeakerSelection."""
        await self._selection.check(messages, floor)

    async def reset(self) -> None:
        """See SpeakerSelection."""
        await self._selection.reset()

    async def save_state(self) -> Mapping[str, Any]:
        """See SpeakerSelection."""
        return await self._selection.save_state()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """See SpeakerSelection."""
        await self._selection.load_state(state)

    def keep_context_in(self, messages: Conversation) -> None:
        """See SpeakerSelection."""
        self._selection.keep_context_in(messages)


class StepTaken(BaseAgentEvent):
    """Everything before it was handed to the run; readers never see it."""

    type: Literal["callboard.StepTaken"] = "callboard.StepTaken"
    reached: Any = Field(exclude=True)

    def to_text(self) -> str:
        """Nothing."""
        return ""


def stepped(team: BaseGroupChat, steps: Steps) -> None:
    """Hold the next run of a team back between its turns; before its first one."""
    make = team.new_selection
    setattr(team, "new_selection", lambda: SteppedSelection(make(), steps))  # noqa: B010 - of this team alone
