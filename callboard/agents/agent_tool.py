"""An agent as a tool."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel

from callboard.foundation.component import Component, ComponentModel, dumped

from .base import BaseChatAgent
from .runner_tool import TaskRunnerTool


class AgentToolConfig(BaseModel):
    """An AgentTool as plain data; its fields are the arguments of AgentTool."""

    agent: ComponentModel
    return_value_as_last_message: bool = False


class AgentTool(TaskRunnerTool, Component[AgentToolConfig]):
    """An agent that models call like a tool; see TaskRunnerTool. Its name and description are those of the agent.

    Args:
        agent: Carries out the tasks.
        return_value_as_last_message: Whether the model reads its last message only.
    """

    component_config_schema = AgentToolConfig
    component_provider_override = "callboard.tools.AgentTool"

    def __init__(self, agent: BaseChatAgent, return_value_as_last_message: bool = False) -> None:
        super().__init__(agent, agent.name, agent.description, return_value_as_last_message)

    def _to_config(self) -> AgentToolConfig:
        return AgentToolConfig(
            agent=dumped(self._task_runner, self),
            return_value_as_last_message=self._return_value_as_last_message,
        )

    @classmethod
    def _from_config(cls, config: AgentToolConfig) -> Self:
        return cls(BaseChatAgent.load_component(config.agent), config.return_value_as_last_message)
