"""Agents and teams as tools."""

from __future__ import annotations

import asyncio
from abc import ABC
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel

from callboard.core.cancellation import CancellationToken
from callboard.foundation.component import Component, ComponentModel, dumped
from callboard.messages.chat import BaseChatMessage
from callboard.runtime.steps import running_context
from callboard.tools.base import BaseStreamTool

from .base import BaseChatAgent, Said, TaskResult, Team
from .errors import AgentSettingError

USER: Final = "user"  # the source of tasks


class TaskRunnerToolArgs(BaseModel):
    """The argument of a tool that carries out tasks.

    Attributes:
        task: What to do.
    """

    task: Annotated[str, "The task to be executed."]


class TaskRunnerTool(BaseStreamTool[TaskRunnerToolArgs, Said, TaskResult], ABC):
    """The base of `AgentTool` and `TeamTool`: carries out a task, shows what is said, and returns the TaskResult.

    An agent or team goes on with its conversation from call to call, and takes one task at a time: a second call waits
    for the first. (In AutoGen the two are mixed, and parallel calls have to be forbidden.) In a handler on the bus, where
    one tool stands for many conversations, every call begins a new conversation with a copy of the agent or team.

    Args:
        task_runner: Carries out the tasks.
        name: The name by which the model calls it.
        description: Its purpose, written for the model.
        return_value_as_last_message: Whether the model reads the last message only, instead of all of them, each with
            its source.
    """

    def __init__(
        self,
        task_runner: BaseChatAgent | Team,
        name: str,
        description: str,
        return_value_as_last_message: bool,
    ) -> None:
        super().__init__(TaskRunnerToolArgs, TaskResult, name, description, strict=True)
        self._task_runner = task_runner
        self._return_value_as_last_message = return_value_as_last_message
        self._turn = asyncio.Lock()

    async def run_stream(
        self, args: TaskRunnerToolArgs, cancellation_token: CancellationToken
    ) -> AsyncGenerator[Said | TaskResult, None]:
        """Carry out a task; yields what is said, and at last the TaskResult."""
        is_in_handler = running_context() is not None
        runner = self._task_runner.for_conversation() if is_in_handler else self._task_runner
        async with AsyncExitStack() as stack:
            if not is_in_handler:
                await stack.enter_async_context(self._turn)
            stream = runner.run_stream(task=args.task, cancellation_token=cancellation_token)
            async for item in await stack.enter_async_context(aclosing(stream)):
                yield item

    def return_value_as_string(self, value: TaskResult) -> str:
        """The result as text for the model: what was said, but for the task.

        Raises:
            AgentSettingError: The last message is wanted, and is an event (a ValueError).
        """
        if self._return_value_as_last_message:
            last = value.messages[-1] if value.messages else None
            if not isinstance(last, BaseChatMessage):
                raise AgentSettingError(
                    f"The last message is not a BaseChatMessage: {self.name!r} has nothing to return."
                )
            return last.to_model_text()
        return "\n\n".join(
            f"{message.source}: {message.to_model_text()}"
            for message in value.messages
            if isinstance(message, BaseChatMessage) and message.source != USER
        )

    async def save_state_json(self) -> Mapping[str, Any]:
        """The state of the agent or team."""
        return await self._task_runner.save_state()

    async def load_state_json(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state_json` returned."""
        await self._task_runner.load_state(state)


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
