"""Targets that name nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from callboard.groupchat.errors import HandoffError

from .target import SpeakerSelectionResult, TransitionTarget, Whereabouts


@dataclass(frozen=True)
class StayTarget(TransitionTarget):
    """The agent who hands over goes on. After a function that is who called it; in AG2 it is the hidden executor."""

    kind: ClassVar[str] = "stay"

    def resolve(self, at: Whereabouts) -> SpeakerSelectionResult:
        """The same agent."""
        return SpeakerSelectionResult(agent_name=at.current)

    def display_name(self) -> str:
        """For people."""
        return "Stay"

    def normalized_name(self) -> str:
        """A part of the name of the tool."""
        return "stay"

    def __str__(self) -> str:
        return "Stay with agent"


@dataclass(frozen=True)
class TerminateTarget(TransitionTarget):
    """The chat is over."""

    kind: ClassVar[str] = "terminate"

    def resolve(self, at: Whereabouts) -> SpeakerSelectionResult:
        """Nobody."""
        return SpeakerSelectionResult(terminate=True)

    def display_name(self) -> str:
        """For people."""
        return "Terminate"

    def normalized_name(self) -> str:
        """A part of the name of the tool."""
        return "terminate"

    def __str__(self) -> str:
        return "Terminate"


@dataclass(frozen=True)
class RevertToUserTarget(TransitionTarget):
    """The user's agent."""

    kind: ClassVar[str] = "revert_to_user"

    def resolve(self, at: Whereabouts) -> SpeakerSelectionResult:
        """The user's agent.

        Raises:
            HandoffError: The pattern has none (a ValueError).
        """
        if at.user is None:
            raise HandoffError("RevertToUserTarget needs a user: give the pattern a user_agent.")
        return SpeakerSelectionResult(agent_name=at.user)

    def display_name(self) -> str:
        """For people."""
        return "Revert to User"

    def normalized_name(self) -> str:
        """A part of the name of the tool."""
        return "revert_to_user"

    def __str__(self) -> str:
        return "Revert to User"


@dataclass(frozen=True)
class AskUserTarget(TransitionTarget):
    """A person is asked who is next."""

    kind: ClassVar[str] = "ask_user"

    def resolve(self, at: Whereabouts) -> SpeakerSelectionResult:
        """By hand."""
        return SpeakerSelectionResult(speaker_selection_method="manual")

    def display_name(self) -> str:
        """For people."""
        return "Ask User"

    def normalized_name(self) -> str:
        """A part of the name of the tool."""
        return "ask_user"

    def __str__(self) -> str:
        return "Ask User"
