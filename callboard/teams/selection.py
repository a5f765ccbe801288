"""Who speaks next: the interface of a strategy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callboard.agents.task import Said
from callboard.memory.contexts.conversation import Conversation
from callboard.messages.base import BaseAgentEvent, BaseChatMessage


@dataclass(frozen=True, slots=True)
class Member:
    """A participant, as strategies see it.

    Attributes:
        name: Its name in the team.
        description: What it can do.
    """

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Choice:
    """What a strategy has decided.

    Attributes:
        speakers: Who speaks; several speak at the same time, and the next choice is made when all of them have spoken.
        said: What the manager itself says first: every member hears chat messages; events are only shown.
        resets: Members who forget everything first.
        stop: Why the run ends now; None: it does not. Then nobody speaks.
    """

    speakers: Sequence[str] = ()
    said: Sequence[Said] = ()
    resets: Sequence[str] = ()
    stop: str | None = None


@dataclass(frozen=True, slots=True)
class Floor:
    """What a strategy chooses from.

    Attributes:
        team: Name of the team's manager, the source of what it says.
        members: Everybody, in the order in which the team was given them.
        thread: All that was said and happened, oldest first. Reading its end costs nothing; walking through it does.
        new: What was said and happened since the last choice, in earlier runs as well: the end of `thread`.
        show: Lets readers of the run see an event at once, such as a piece of a model's text.
        new_by: Name of the member who said it, for each of `new`; "": it is part of a task.
    """

    team: str
    members: Sequence[Member]
    thread: Sequence[Said]
    new: Sequence[Said]
    show: Callable[[BaseAgentEvent], Awaitable[None]]
    new_by: Sequence[str] = ()

    @property
    def names(self) -> list[str]:
        """The names of the members, in their order."""
        return [member.name for member in self.members]

    @property
    def answers(self) -> dict[str, BaseChatMessage]:
        """The last message of each member who has spoken since the last choice, by name."""
        said = zip(self.new_by, self.new, strict=True)
        return {by: message for by, message in said if by and isinstance(message, BaseChatMessage)}

    @property
    def task(self) -> list[BaseChatMessage]:
        """What came from outside since the last choice: a new task; nothing: the run goes on with the last one."""
        said = zip(self.new_by, self.new, strict=True)
        return [message for by, message in said if not by and isinstance(message, BaseChatMessage)]


class SpeakerSelection(ABC):
    """A strategy: chooses who speaks next. Each conversation has one of its own.

    Derive from it, and from `BaseGroupChat` a team that makes one; see round_robin.py, which is the shortest.
    """

    @abstractmethod
    async def select(self, floor: Floor) -> Choice:
        """Who speaks next. Called when a run begins, and whenever everybody who was asked has spoken.

        On the bus it may run again when a process dies: model calls through a `RecordedChatCompletionClient` are not
        paid again then, and what it keeps in itself goes back to what the last `save_state` returned.
        """
        ...

    async def after_round(self, floor: Floor) -> str | None:
        """Take note of a round. Called when everybody who was asked has spoken, before the termination condition is.

        Args:
            floor: As `select` will see it.

        Returns:
            Why the run ends now, whatever the termination condition says; None, as here: it does not.
        """
        return None

    async def check(self, messages: Sequence[BaseChatMessage] | None, floor: Floor) -> None:  # noqa: B027
        """Refuse a task that can't be carried out, before anything of it is in the thread. Here: none.

        Args:
            messages: The task; None: go on.
            floor: Its thread is without the task.

        Raises:
            ValueError: It can't be carried out.
        """

    async def reset(self) -> None:  # noqa: B027
        """Be as in the beginning."""

    async def save_state(self) -> Mapping[str, Any]:
        """What it remembers from one choice to the next, as small plain data; what grows goes to `keep_context_in`."""
        return {}

    async def load_state(self, state: Mapping[str, Any]) -> None:  # noqa: B027
        """Take over what `save_state` returned."""

    def keep_context_in(self, messages: Conversation) -> None:  # noqa: B027
        """Keep the messages of a model context in this list; called once, before anything else. Here: there is none."""
