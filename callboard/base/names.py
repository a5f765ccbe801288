"""Names that live in other rooms."""

from __future__ import annotations

from callboard.agents.chat_agent import ChatAgent, Response
from callboard.agents.handoff import Handoff
from callboard.agents.task import TaskResult, TaskRunner
from callboard.agents.team import Team
from callboard.conditions.base import (
    AndTerminationCondition,
    OrTerminationCondition,
    TerminationCondition,
)
from callboard.conditions.errors import TerminatedException

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
