"""What everybody who takes part in a conversation can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from callboard.cancellation import CancellationToken
from callboard.foundation.component import ComponentBase
from callboard.messages.base import BaseChatMessage

from .task import Said, TaskRunner


@dataclass(kw_only=True)
class Response:
    """The answer of an agent.

    Attributes:
        chat_message: What it says.
        inner_messages: What happened on the way.
    """

    chat_message: BaseChatMessage
    inner_messages: Sequence[Said] | None = None


class ChatAgent(ABC, TaskRunner, ComponentBase[BaseModel]):
    """An agent that takes part in a conversation. Derive from `BaseChatAgent`, which has most of this."""

    component_type = "agent"

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name, which nobody else in a team has."""
        ...

    @property
    @abstractmethod
    def description(self) -> str:
        """What it can do, for those who choose who speaks."""
        ...

    @property
    @abstractmethod
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """The types of what it says."""
        ...

    @abstractmethod
    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """Answer to what was said since its last answer."""
        ...

    @abstractmethod
    def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[Said | Response, None]:
        """The same; yields what happens on the way, and at last the Response."""
        ...

    @abstractmethod
    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Be as in the beginning."""
        ...

    @abstractmethod
    async def on_pause(self, cancellation_token: CancellationToken) -> None:
        """Called when its team pauses."""
        ...

    @abstractmethod
    async def on_resume(self, cancellation_token: CancellationToken) -> None:
        """Called when its team goes on."""
        ...

    @abstractmethod
    async def save_state(self) -> Mapping[str, Any]:
        """All that it remembers, as plain data."""
        ...

    @abstractmethod
    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned."""
        ...

    @abstractmethod
    async def close(self) -> None:
        """Give back what it holds."""
        ...
