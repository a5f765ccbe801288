"""The manager's model as a target."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from callboard.groupchat.errors import HandoffError

from .context_text import ContextStr
from .target import SpeakerSelectionResult, TransitionTarget, Whereabouts

FILLED: Final = "is_filled"


class GroupManagerSelectionMessage(ABC):
    """What the manager's model is told last when it chooses; ``{agentlist}`` is replaced by the names."""

    @abstractmethod
    def get_message(self, context_variables: Mapping[str, Any]) -> str:
        """The text, with ``{agentlist}``."""
        ...


@dataclass(frozen=True)
class GroupManagerSelectionMessageString(GroupManagerSelectionMessage):
    """A fixed text.

    Args:
        message: The text.
    """

    message: str

    def get_message(self, context_variables: Mapping[str, Any]) -> str:
        """The text."""
        return self.message


@dataclass(frozen=True)
class GroupManagerSelectionMessageContextStr(GroupManagerSelectionMessage):
    """A text with context variables in it.

    Args:
        context_str_template: The text, with variables in braces.
    """

    context_str_template: str

    def get_message(self, context_variables: Mapping[str, Any]) -> str:
        """The text with the values."""
        values = {name: value for name, value in context_variables.items() if name != "agentlist"}
        return ContextStr(self.context_str_template).format(values)


@dataclass(frozen=True)
class GroupManagerTarget(TransitionTarget):
    """The manager's model chooses who is next: among the agents and the user.

    In AG2 it may choose the hidden executor and the helpers as well.

    Args:
        selection_message: What it is told last; None: as the group chat has it.
    """

    kind: ClassVar[str] = "group_manager"

    selection_message: GroupManagerSelectionMessage | None = None

    def resolve(self, at: Whereabouts) -> SpeakerSelectionResult:
        """By the model."""
        message = self.selection_message
        prompt = None if message is None else message.get_message(at.context_variables)
        return SpeakerSelectionResult(speaker_selection_method="auto", prompt=prompt)

    def display_name(self) -> str:
        """For people."""
        return "the group manager"

    def normalized_name(self) -> str:
        """A part of the name of the tool."""
        return "group_manager"

    def dump(self) -> dict[str, Any]:
        """As plain data.

        Raises:
            HandoffError: Its message is of a class of your own (a ValueError).
        """
        match self.selection_message:
            case None:
                return super().dump()
            case GroupManagerSelectionMessageString(message=text):
                return {**super().dump(), "message": text}
            case GroupManagerSelectionMessageContextStr(context_str_template=text):
                return {**super().dump(), "message": text, FILLED: True}
            case other:
                raise HandoffError(f"A {type(other).__name__} can't travel in a message: use a text.")

    __str__ = TransitionTarget.__str__
