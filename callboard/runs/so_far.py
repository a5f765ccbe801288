"""What was said in a run so far, for chat managers, which choose who goes on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeGuard

from callboard.agents.task import Said
from callboard.groupchat.context_variables import ContextVariables
from callboard.messages.base import BaseChatMessage
from callboard.messages.chat import HandoffMessage, StopMessage

from .event import Event
from .events import Message
from .projection import Projection, message_of
from .variables import apply


class SoFar:
    """A run while it goes on, as `ChatManagerProtocol.get_next_agent` sees it.

    Attributes:
        said: Everything that was said and happened.
        messages: What the agents and those outside have said to each other.
        context_variables: What the agents know besides.
    """

    def __init__(self) -> None:
        self.said: list[Said] = []
        self.messages: list[Message] = []
        self.context_variables = ContextVariables()

    def add(self, said: Sequence[Said]) -> None:
        """More was said."""
        self.said.extend(said)
        apply(self.context_variables, said)
        self.messages += [message_of(one) for one in said if is_message(one)]

    @property
    def last_speaker(self) -> str:
        """Who said the last message, perhaps somebody from outside; "": nobody has."""
        return self.messages[-1]["sender"] if self.messages else ""

    @property
    def last_target(self) -> str:
        """To whom the last one who spoke has handed over; "": to nobody."""
        last = next((one for one in reversed(self.said) if isinstance(one, BaseChatMessage)), None)
        return last.target if isinstance(last, HandoffMessage) else ""

    @property
    def summary(self) -> str:
        """The text of the last message."""
        return str(self.messages[-1]["text"]) if self.messages else ""

    @property
    def events(self) -> list[Event]:
        """The same as events."""
        projection, at, events = Projection(""), datetime.now(UTC), list[Event]()
        for one in self.said:
            events += projection.of(one, len(events) + 1, at)
        return events


def is_message(said: Said) -> TypeGuard[BaseChatMessage]:
    """Whether something is one of the messages of a run: no handoff, and no word of the end."""
    return isinstance(said, BaseChatMessage) and not isinstance(said, HandoffMessage | StopMessage)
