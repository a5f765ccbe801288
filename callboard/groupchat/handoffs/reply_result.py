"""What a function may return to hand over."""

from __future__ import annotations

from dataclasses import dataclass

from callboard.groupchat.context_variables import ContextVariables
from callboard.groupchat.errors import HandoffError

from .on_condition import check_target, check_variables
from .target import TransitionTarget


@dataclass(frozen=True)
class ReplyResult:
    """What a function of an agent returns: an answer for the model, and perhaps who is next and what changes.

    Args:
        message: The answer.
        target: Who is next; None: the agent who called.
        context_variables: Variables that change.

    Raises:
        HandoffError: The message is no text, the target none, or the variables no mapping (a TypeError and a ValueError).
            The model that called the function is told so.
    """

    message: str
    target: TransitionTarget | None = None
    context_variables: ContextVariables | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.message, str):  # pyright: ignore[reportUnnecessaryIsInstance] - programs without types
            raise HandoffError(
                f"The message of a ReplyResult is a text, and no {type(self.message).__name__}: str(...) makes one."
            )
        if self.target is not None:
            check_target(self.target)
        check_variables(self.context_variables)

    def __str__(self) -> str:
        return self.message
