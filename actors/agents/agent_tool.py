"""An agent as a tool."""

from __future__ import annotations

from .base import BaseChatAgent
from .runner_tool import TaskRunnerTool


class AgentTool(TaskRunnerTool):
    """An agent that models call like a tool; see TaskRunnerTool. Its name and description are those of the agent.

    Args:
        agent: Carries out the tasks.
        return_value_as_last_message: Whether the model reads its last message only.
    """

    def __init__(self, agent: BaseChatAgent, return_value_as_last_message: bool = False) -> None:
        super().__init__(agent, agent.name, agent.description, return_value_as_last_message)
