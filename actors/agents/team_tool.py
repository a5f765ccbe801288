"""A team as a tool."""

from __future__ import annotations

from .runner_tool import TaskRunnerTool
from .team import Team


class TeamTool(TaskRunnerTool):
    """A team that models call like a tool; see TaskRunnerTool.

    Args:
        team: Carries out the tasks.
        name: The name by which the model calls it.
        description: Its purpose, written for the model.
        return_value_as_last_message: Whether the model reads the last message only.
    """

    def __init__(
        self, team: Team, name: str, description: str, return_value_as_last_message: bool = False
    ) -> None:
        super().__init__(team, name, description, return_value_as_last_message)
