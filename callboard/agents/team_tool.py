"""A team as a tool."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel

from callboard.foundation.component import Component, ComponentModel, dumped

from .runner_tool import TaskRunnerTool
from .team import Team


class TeamToolConfig(BaseModel):
    """A TeamTool as plain data; its fields are the arguments of TeamTool."""

    name: str
    description: str
    team: ComponentModel
    return_value_as_last_message: bool = False


class TeamTool(TaskRunnerTool, Component[TeamToolConfig]):
    """A team that models call like a tool; see TaskRunnerTool.

    Args:
        team: Carries out the tasks.
        name: The name by which the model calls it.
        description: Its purpose, written for the model.
        return_value_as_last_message: Whether the model reads the last message only.
    """

    component_config_schema = TeamToolConfig
    component_provider_override = "callboard.tools.TeamTool"

    def __init__(
        self, team: Team, name: str, description: str, return_value_as_last_message: bool = False
    ) -> None:
        super().__init__(team, name, description, return_value_as_last_message)

    def _to_config(self) -> TeamToolConfig:
        return TeamToolConfig(
            name=self.name,
            description=self.description,
            team=dumped(self._task_runner, self),
            return_value_as_last_message=self._return_value_as_last_message,
        )

    @classmethod
    def _from_config(cls, config: TeamToolConfig) -> Self:
        team = Team.load_component(config.team)
        return cls(team, config.name, config.description, config.return_value_as_last_message)
