"""Ends a conversation when a text message is said."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel

from callboard.foundation.component import Component
from callboard.messages.chat import TextMessage

from .base import Messages
from .latched import LatchedTermination


class TextMessageTerminationConfig(BaseModel):
    """A TextMessageTermination as plain data; its fields are the arguments of TextMessageTermination."""

    source: str | None = None


class TextMessageTermination(LatchedTermination, Component[TextMessageTerminationConfig]):
    """Is reached when a `TextMessage` is said, in the place of a tool's summary for example. The task counts, too.

    Args:
        source: Who has to say it; None: anybody.
    """

    component_config_schema = TextMessageTerminationConfig
    component_provider_override = "callboard.conditions.TextMessageTermination"

    def __init__(self, source: str | None = None) -> None:
        super().__init__()
        self._source = source

    async def reason(self, messages: Messages) -> str | None:
        """Whether one of the messages is a TextMessage of the source."""
        for said in messages:
            if isinstance(said, TextMessage) and self._source in (None, said.source):
                return f"Text message received from '{said.source}'"
        return None

    def _to_config(self) -> TextMessageTerminationConfig:
        return TextMessageTerminationConfig(source=self._source)

    @classmethod
    def _from_config(cls, config: TextMessageTerminationConfig) -> Self:
        return cls(**dict(config))
