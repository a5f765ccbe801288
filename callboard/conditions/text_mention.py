"""Ends a conversation when a text is mentioned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import BaseModel

from callboard.foundation.component import Component

from .base import Messages
from .latched import LatchedTermination


class TextMentionTerminationConfig(BaseModel):
    """A TextMentionTermination as plain data; its fields are the arguments of TextMentionTermination."""

    text: str
    sources: list[str] | None = None


class TextMentionTermination(LatchedTermination, Component[TextMentionTerminationConfig]):
    """Is reached when a message or event contains a text. The task counts, too.

    Args:
        text: The text; upper and lower case differ.
        sources: Names of those who are listened to; None: everybody.
    """

    component_config_schema = TextMentionTerminationConfig
    component_provider_override = "callboard.conditions.TextMentionTermination"

    def __init__(self, text: str, sources: Sequence[str] | None = None) -> None:
        super().__init__()
        self._text = text
        self._sources = None if sources is None else tuple(sources)

    async def reason(self, messages: Messages) -> str | None:
        """Whether one of the messages contains the text."""
        for said in messages:
            if (self._sources is None or said.source in self._sources) and self._text in said.to_text():
                return f"Text '{self._text}' mentioned"
        return None

    def _to_config(self) -> TextMentionTerminationConfig:
        return TextMentionTerminationConfig(
            text=self._text, sources=None if self._sources is None else list(self._sources)
        )

    @classmethod
    def _from_config(cls, config: TextMentionTerminationConfig) -> Self:
        return cls(**dict(config))
