"""Teams as plain data: what the configs of all of them have."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from callboard.agents.chat_agent import ChatAgent
from callboard.agents.team import Team
from callboard.conditions.base import TerminationCondition
from callboard.foundation.component import ComponentModel, dumped

from .budget import RunBudget
from .led import LedTeam
from .local import Participant


class TeamConfig(BaseModel):
    """A team as plain data; its fields are arguments of the team. Functions and classes are not among them."""

    model_config = ConfigDict(protected_namespaces=())

    name: str | None = None
    description: str | None = None
    participants: list[ComponentModel]
    termination_condition: ComponentModel | None = None
    max_turns: int | None = None
    emit_team_events: bool = False
    budget: RunBudget | None = None

    def arguments(self) -> dict[str, Any]:
        """What a team is made from, but for the fields that only some have."""
        condition = self.termination_condition
        return {
            "participants": [_participant(each) for each in self.participants],
            "name": self.name,
            "description": self.description,
            "termination_condition": None
            if condition is None
            else TerminationCondition.load_component(condition),
            "max_turns": self.max_turns,
            "emit_team_events": self.emit_team_events,
            "budget": self.budget,
        }


def common_config(team: LedTeam) -> dict[str, Any]:
    """The fields of a team's config that all have.

    Raises:
        NotDumpableError: A member or the condition is no component (a TypeError).
    """
    condition = team.termination_condition
    return {
        "name": team.name,
        "description": team.description,
        "participants": [dumped(participant, team) for participant in team.participants],
        "termination_condition": None if condition is None else dumped(condition, team),
        "max_turns": team.plan.max_turns,
        "emit_team_events": team.plan.emit_team_events,
        "budget": team.plan.budget,
    }


def _participant(config: ComponentModel) -> Participant:
    return (
        Team.load_component(config) if config.component_type == "team" else ChatAgent.load_component(config)
    )
