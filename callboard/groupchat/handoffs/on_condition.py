"""A condition and a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from callboard.groupchat.errors import HandoffError

from .conditions import AvailableCondition, ContextCondition, LLMCondition
from .target import TransitionTarget


@dataclass(frozen=True)
class OnCondition:
    """The agent's model decides: it gets a tool that hands over.

    Args:
        target: Who is handed over to.
        condition: Tells the model when.
        available: Whether the tool is there at all, at each turn; None: always.
        llm_function_name: Name of the tool; None: ``transfer_to_<target>_<number>``.

    Raises:
        HandoffError: The target or a condition is none (a TypeError and a ValueError).
    """

    target: TransitionTarget
    condition: LLMCondition
    available: AvailableCondition | None = None
    llm_function_name: str | None = None

    def __post_init__(self) -> None:
        check_target(self.target)
        if not isinstance(self.condition, LLMCondition):  # pyright: ignore[reportUnnecessaryIsInstance] - programs without types
            raise HandoffError(
                "The condition of an OnCondition tells a model when: StringLLMCondition('...')."
            )
        _check_available(self.available)


@dataclass(frozen=True)
class OnContextCondition:
    """Context variables decide, before the agent's model is asked.

    Args:
        target: Who is handed over to.
        condition: Whether; None: always.
        available: Whether it is looked at; None: always.

    Raises:
        HandoffError: The target or a condition is none (a TypeError and a ValueError).
    """

    target: TransitionTarget
    condition: ContextCondition | None = None
    available: AvailableCondition | None = None

    def __post_init__(self) -> None:
        check_target(self.target)
        if self.condition is not None and not isinstance(self.condition, ContextCondition):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise HandoffError(
                "The condition of an OnContextCondition looks at variables: StringContextCondition('...') or "
                "ExpressionContextCondition(ContextExpression('...'))."
            )
        _check_available(self.available)


def _check_available(available: object) -> None:
    if available is not None and not isinstance(available, AvailableCondition):
        raise HandoffError(
            "What is available is said by a condition: StringAvailableCondition('...') or "
            "ExpressionAvailableCondition(ContextExpression('...'))."
        )


def check_target(target: object) -> None:
    """Refuse what is no target.

    Raises:
        HandoffError: It is none (a TypeError and a ValueError).
    """
    if not isinstance(target, TransitionTarget):
        raise HandoffError(f"A {type(target).__name__} is no target: write AgentTarget(agent).")


def check_variables(variables: object) -> None:
    """Refuse what are no context variables that change; None: none do.

    Raises:
        HandoffError: They are none (a TypeError and a ValueError).
    """
    if variables is not None and not isinstance(variables, Mapping):
        raise HandoffError(
            f"A {type(variables).__name__} can't change variables: write ContextVariables({{'name': value}})."
        )
