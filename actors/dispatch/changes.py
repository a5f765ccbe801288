"""What happens to handoffs, for those who keep watch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from callboard.broker.encoding.registry import message
from callboard.messages.base import BaseAgentEvent

Kind: TypeAlias = Literal["created", "added", "deleted", "enabled", "disabled", "used", "expired", "hidden"]


@dataclass(frozen=True, slots=True)
class HandoffChange:
    """Something that happened to a handoff of a dispatcher.

    Attributes:
        kind: What.
        name: The name of the handoff.
        target: Its target.
        caller: The agent whose model asked for it; None: the program, or its lifetime.
    """

    kind: Kind
    name: str
    target: str
    caller: str | None = None


@message(name="callboard.HandoffChangeEvent")
class HandoffChangeEvent(BaseAgentEvent):
    """A handoff was created, was used and is gone, has expired, or is hidden because a tool has its name.

    Attributes:
        change: What happened to it.
        name: Its name.
        target: Its target.
    """

    change: Kind
    name: str
    target: str
    type: Literal["HandoffChangeEvent"] = "HandoffChangeEvent"

    def to_text(self) -> str:
        """Both, for people."""
        return f"The handoff {self.name} to {self.target}: {self.change}."
