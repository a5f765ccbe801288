"""What a function may return to hand over."""

from __future__ import annotations

from dataclasses import dataclass

from callboard.groupchat.context_variables import ContextVariables

from .on_condition import check_target
from .target import TransitionTarget


@dataclass(frozen=True)
class ReplyResult:
    """What a function of an agent returns: an answer for the model, and perhaps who is next and what changes.

    Args:
        message: The answer.
        target: Who is next; None: the agent who called.
        context_variables: Variables that change.

    Raises:
        HandoffError: The target is none (a TypeError and a ValueError).
    """

    message: str
    target: TransitionTarget | None = None
    context_variables: ContextVariables | None = None

    def __post_init__(self) -> None:
        if self.target is not None:
            check_target(self.target)

    def __str__(self) -> str:
        return self.message
