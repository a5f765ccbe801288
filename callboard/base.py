"""The bases of agents, teams and termination conditions, with the names that AutoGen gives them in this place."""

from __future__ import annotations

from callboard.agents.base import ChatAgent, Response, TaskResult, TaskRunner, Team
from callboard.agents.handoff import Handoff
from callboard.conditions.base import (
    AndTerminationCondition,
    OrTerminationCondition,
    TerminatedException,
    TerminationCondition,
)

__all__ = [
    "AndTerminationCondition",
    "ChatAgent",
    "Handoff",
    "OrTerminationCondition",
    "Response",
    "TaskResult",
    "TaskRunner",
    "Team",
    "TerminatedException",
    "TerminationCondition",
]
