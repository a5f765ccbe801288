"""A handle on one agent."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Unpack, overload

from callboard.broker.ids import AgentId

from .cancellation import CancellationToken
from .protocol import AgentMetadata, AgentRuntime
from .requests import Request, ResponseT
from .send_options import RequestOptions


class AgentProxy:
    """Stands for an agent, wherever it lives.

    Args:
        agent: Its id.
        runtime: The runtime to reach it through.
    """

    def __init__(self, agent: AgentId, runtime: AgentRuntime) -> None:
        self._agent = agent
        self._runtime = runtime

    @property
    def id(self) -> AgentId:
        """The agent this stands for."""
        return self._agent

    @property
    def metadata(self) -> Awaitable[AgentMetadata]:
        """Who the agent is; to be awaited."""
        return self._runtime.agent_metadata(self._agent)

    @overload
    async def send_message(
        self,
        message: Request[ResponseT],
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> ResponseT: ...

    @overload
    async def send_message(
        self,
        message: Any,
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Any: ...

    async def send_message(
        self,
        message: Any,
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Any:
        """Send the agent a request and wait for its response; see `AgentRuntime.send_message`."""
        return await self._runtime.send_message(
            message,
            self._agent,
            sender=sender,
            cancellation_token=cancellation_token,
            message_id=message_id,
            **options,
        )

    async def save_state(self) -> Mapping[str, Any]:
        """The agent's state, as something that fits into JSON."""
        return await self._runtime.agent_save_state(self._agent)

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Give the agent a state that `save_state` returned."""
        await self._runtime.agent_load_state(self._agent, state)

    def __repr__(self) -> str:
        return f"AgentProxy({self._agent!r})"
