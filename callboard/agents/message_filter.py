"""The agent that hears only a part of what is said."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal, Self

from pydantic import BaseModel, Field

from callboard.core.cancellation import CancellationToken
from callboard.foundation.component import Component, ComponentModel, dumped
from callboard.memory.contexts import Conversation
from callboard.messages.chat import BaseChatMessage

from .base import BaseChatAgent, Response, Said


class PerSourceFilter(BaseModel):
    """Which messages of a source pass.

    Attributes:
        source: Name of who says them.
        position: Whether the first or the last ones pass; None: all.
        count: How many of them; None or 0: all.
    """

    source: str
    position: Literal["first", "last"] | None = None
    count: int | None = Field(default=None, ge=0)


class MessageFilterConfig(BaseModel):
    """Which messages pass: those of the sources that are named, in the order of this list.

    Attributes:
        per_source: One filter for each source.
    """

    per_source: list[PerSourceFilter]

    def passed(self, messages: Sequence[BaseChatMessage]) -> list[BaseChatMessage]:
        """The messages that pass."""
        passed: list[BaseChatMessage] = []
        for wanted in self.per_source:
            said = [message for message in messages if message.source == wanted.source]
            if wanted.position == "first" and wanted.count:
                said = said[: wanted.count]
            elif wanted.position == "last" and wanted.count:
                said = said[-wanted.count :]
            passed += said
        return passed


class MessageFilterAgentState(BaseModel):
    """The state of a MessageFilterAgent.

    Attributes:
        wrapped_agent_state: That of the agent inside; None: nothing is known, as in AutoGen's.
    """

    type: str = "MessageFilterAgentState"
    version: str = "1.0.0"
    wrapped_agent_state: Mapping[str, Any] | None = None


class MessageFilterAgentConfig(BaseModel):
    """A MessageFilterAgent as plain data; its fields are the arguments of MessageFilterAgent."""

    name: str
    wrapped_agent: ComponentModel
    filter: MessageFilterConfig


class MessageFilterAgent(BaseChatAgent, Component[MessageFilterAgentConfig]):
    """Lets another agent hear only a part of what is said, as a loop of a graph may need.

    Everything else is that agent's. AutoGen loses its state, and does not tell it of pause, resume and close; here all of it
    reaches the agent inside.

    Args:
        name: A Python identifier.
        wrapped_agent: The agent that is to hear less.
        filter: What it hears.
    """

    component_config_schema = MessageFilterAgentConfig
    component_provider_override = "callboard.agents.MessageFilterAgent"

    def __init__(self, name: str, wrapped_agent: BaseChatAgent, filter: MessageFilterConfig) -> None:
        super().__init__(name, f"{wrapped_agent.description} (with message filtering)")
        self._wrapped_agent = wrapped_agent
        self._filter = filter

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """The types of what the agent inside says."""
        return self._wrapped_agent.produced_message_types

    @property
    def hands_over(self) -> bool:
        """Whether the agent inside does."""
        return self._wrapped_agent.hands_over

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """Let the agent inside answer to what passes."""
        return await self._wrapped_agent.on_messages(self._filter.passed(messages), cancellation_token)

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[Said | Response, None]:
        """The same; yields what the agent inside yields."""
        passed = self._filter.passed(messages)
        async with aclosing(self._wrapped_agent.on_messages_stream(passed, cancellation_token)) as items:
            async for item in items:
                yield item

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Reset the agent inside."""
        await self._wrapped_agent.on_reset(cancellation_token)

    def on_joined(self, members: Sequence[str]) -> None:
        """Tells the agent."""
        self._wrapped_agent.on_joined(members)

    async def on_pause(self, cancellation_token: CancellationToken) -> None:
        """Pause the agent inside."""
        await self._wrapped_agent.on_pause(cancellation_token)

    async def on_resume(self, cancellation_token: CancellationToken) -> None:
        """Resume the agent inside."""
        await self._wrapped_agent.on_resume(cancellation_token)

    async def save_state(self) -> Mapping[str, Any]:
        """The state of the agent inside."""
        return _saved(await self._wrapped_agent.save_state())

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned; AutoGen's has nothing to take over."""
        inner = MessageFilterAgentState.model_validate(state).wrapped_agent_state
        if inner is not None:
            await self._wrapped_agent.load_state(inner)

    async def close(self) -> None:
        """Close the agent inside."""
        await self._wrapped_agent.close()

    # On the bus

    def keep_context_in(self, messages: Conversation) -> None:
        """Give the list to the agent inside."""
        self._wrapped_agent.keep_context_in(messages)

    async def save_beside_context(self) -> Mapping[str, Any] | None:
        """The state of the agent inside, beside its context."""
        inner = await self._wrapped_agent.save_beside_context()
        return None if inner is None else _saved(inner)

    async def load_beside_context(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_beside_context` returned."""
        inner = MessageFilterAgentState.model_validate(state).wrapped_agent_state
        if inner is not None:
            await self._wrapped_agent.load_beside_context(inner)

    def _to_config(self) -> MessageFilterAgentConfig:
        inner = dumped(self._wrapped_agent, self)
        return MessageFilterAgentConfig(name=self.name, wrapped_agent=inner, filter=self._filter)

    @classmethod
    def _from_config(cls, config: MessageFilterAgentConfig) -> Self:
        return cls(config.name, BaseChatAgent.load_component(config.wrapped_agent), config.filter)


def _saved(inner: Mapping[str, Any]) -> dict[str, Any]:
    return MessageFilterAgentState(wrapped_agent_state=inner).model_dump()
