"""Who is next, before it is known who that is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from callboard.groupchat.context_variables import ContextVariables
from callboard.groupchat.errors import HandoffError

KIND = "kind"


@dataclass(frozen=True)
class SpeakerSelectionResult:
    """What a target comes to.

    Attributes:
        terminate: Whether nobody is next: the chat is over.
        agent_name: Who is next.
        speaker_selection_method: How it is chosen who is: "auto" or "manual".
        prompt: What the model that chooses is told last; None: as usual.
    """

    terminate: bool | None = None
    agent_name: str | None = None
    speaker_selection_method: str | None = None
    prompt: str | None = None


@dataclass(frozen=True)
class Whereabouts:
    """Where a chat stands when a target is looked at.

    Attributes:
        current: Name of the agent who hands over.
        user: Name of the user's agent; None: there is none.
        context_variables: What the agents of the chat share.
    """

    current: str
    user: str | None
    context_variables: ContextVariables


class TransitionTarget(ABC):
    """Who is next, for conditions, for what is done after work, and for what functions return.

    A target that a function returns travels in a message as plain data, so that it reaches the manager in another process.
    """

    kind: ClassVar[str]
    """Names the class in this data."""

    @abstractmethod
    def resolve(self, at: Whereabouts) -> SpeakerSelectionResult:
        """Who is next.

        Raises:
            HandoffError: Nobody can be (a ValueError).
        """
        ...

    @abstractmethod
    def display_name(self) -> str:
        """For people."""
        ...

    def normalized_name(self) -> str:
        """A part of the name of the tool that hands over."""
        return self.display_name()

    def needs_agent_wrapper(self) -> bool:
        """Whether a helper agent does it, who returns to the one who handed over."""
        return False

    def names(self) -> list[str]:
        """The agents that it names; they have to be in the group."""
        return []

    def dump(self) -> dict[str, Any]:
        """As plain data.

        Raises:
            HandoffError: It can't be (a ValueError).
        """
        return {KIND: self.kind}

    def __str__(self) -> str:
        return f"Transfer to {self.display_name()}"


def not_by_itself(target: TransitionTarget) -> HandoffError:
    """A target that is for conditions of agents was given elsewhere."""
    return HandoffError(
        f"{type(target).__name__} is for the handoffs of an agent, which returns to it: give it to an OnCondition, an "
        "OnContextCondition or set_after_work of that agent."
    )
