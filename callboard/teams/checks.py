"""Refuses a team that can't work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from callboard.agents.errors import AgentNameError
from callboard.conditions.base import TerminationCondition

from .budget import RunBudget, check_budget, not_limited
from .errors import TeamDeclarationError
from .local import Participant


def check_team(
    participants: Sequence[Participant],
    name: str,
    condition: TerminationCondition | None,
    max_turns: int | None,
    budget: RunBudget | None,
) -> None:
    """Check what a team is made of.

    Raises:
        TeamDeclarationError: It can't be this (a ValueError).
        AgentNameError: The name is no identifier (a ValueError).
    """
    if not name.isidentifier():
        raise AgentNameError(name, "a team")
    check_participants(participants)
    _check_condition(condition)
    _check_turns(max_turns)
    check_budget(budget)
    problem = not_limited(participants) if budget is not None and budget.is_for_models else ""
    if problem:
        raise TeamDeclarationError(f"A budget can't hold: {problem}.")


def check_participants(given: object) -> None:
    """Check that these can be the members of a team.

    Raises:
        TeamDeclarationError: They are no list, are none, or two have one name (a ValueError).
    """
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise TeamDeclarationError(
            f"The participants have to be a list, [...], and not a {type(given).__name__}."
        )
    participants: Sequence[Any] = given
    if not participants:
        raise TeamDeclarationError("At least one participant is required.")
    for one in participants:
        if isinstance(one, type) or not hasattr(one, "name"):
            raise TeamDeclarationError(f"{one!r} can't take part in a team: give an agent, or a team.")
    names = [one.name for one in participants]
    if len(names) != len(set(names)):
        raise TeamDeclarationError("The participant names must be unique.")


def _check_condition(given: object) -> None:
    if given is not None and (isinstance(given, type) or not hasattr(given, "terminated")):
        raise TeamDeclarationError(
            f"{given!r} can't be a termination_condition: give an object, such as MaxMessageTermination(10)."
        )


def _check_turns(given: object) -> None:
    if given is None:
        return
    # What is no whole number would limit nothing.
    if isinstance(given, bool) or not isinstance(given, int):
        raise TeamDeclarationError(f"The maximum number of turns must be a whole number, and not {given!r}.")
    if given <= 0:
        raise TeamDeclarationError("The maximum number of turns must be greater than 0.")
