"""A function as a target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from callboard.groupchat.agent import Agent
from callboard.groupchat.context_variables import ContextVariables
from callboard.groupchat.errors import HandoffError

from .on_condition import check_target, check_variables
from .target import SpeakerSelectionResult, TransitionTarget, Whereabouts


@dataclass(frozen=True)
class FunctionTargetMessage:
    """What a function tells an agent.

    Args:
        content: The text.
        msg_target: The agent.
    """

    content: str
    msg_target: Agent


@dataclass(frozen=True)
class FunctionTargetResult:
    """What a function decides.

    Args:
        messages: What it tells agents: messages, or a text for the agent who is next (else for the one who hands over).
        context_variables: Variables that change.
        target: Who is next.

    Raises:
        HandoffError: One of them is of another kind (a TypeError and a ValueError).
    """

    messages: Sequence[FunctionTargetMessage] | str | None = None
    context_variables: ContextVariables | None = None
    target: TransitionTarget | None = None

    def __post_init__(self) -> None:
        check_variables(self.context_variables)
        if self.target is not None:
            check_target(self.target)
        told: Any = self.messages
        if told is None or isinstance(told, str):
            return
        if not isinstance(told, Sequence) or not all(isinstance(one, FunctionTargetMessage) for one in told):
            raise HandoffError(
                "The messages of a FunctionTargetResult are a text, or a list of FunctionTargetMessage(text, agent)."
            )


@dataclass(frozen=True, init=False)
class FunctionTarget(TransitionTarget):
    """A function of yours decides who is next; the manager calls it.

    It is called with the text of the last message and the context variables, may be async, and returns a
    FunctionTargetResult. In AG2 it is for what is done after work; here it is for conditions as well. On the bus what it
    decided is recorded, so that it is called once.

    Args:
        incoming_fn: The function. Its name is that of the target: no two functions of a group have one name.

    Raises:
        HandoffError: It is no function (a ValueError).
    """

    kind: ClassVar[str] = "function"

    fn_name: str
    fn: Callable[..., Any]

    def __init__(self, incoming_fn: Callable[..., Any]) -> None:
        if not callable(incoming_fn):
            raise HandoffError("FunctionTarget is made of a function.")
        object.__setattr__(self, "fn", incoming_fn)
        object.__setattr__(self, "fn_name", getattr(incoming_fn, "__name__", type(incoming_fn).__name__))

    def resolve(self, at: Whereabouts) -> SpeakerSelectionResult:
        """Its function is called instead.

        Raises:
            HandoffError: Always (a ValueError).
        """
        raise HandoffError(
            f"The function {self.fn_name!r} decided for another function: let it name an agent."
        )

    def display_name(self) -> str:
        """Name of the function."""
        return self.fn_name

    def dump(self) -> dict[str, Any]:
        """As plain data: by its name."""
        return {**super().dump(), "name": self.fn_name}

    def __str__(self) -> str:
        return f"Transfer to tool {self.fn_name}"
