"""Ends a conversation when somebody has spoken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import BaseModel

from callboard.foundation.component import Component

from .base import Messages
from .latched import LatchedTermination


class SourceMatchTerminationConfig(BaseModel):
    """A SourceMatchTermination as plain data; its fields are the arguments of SourceMatchTermination."""

    sources: list[str]


class SourceMatchTermination(LatchedTermination, Component[SourceMatchTerminationConfig]):
    """Is reached when one of several sources says something; an event counts, too.

    Args:
        sources: Names of agents.
    """

    component_config_schema = SourceMatchTerminationConfig
    component_provider_override = "callboard.conditions.SourceMatchTermination"

    def __init__(self, sources: Sequence[str]) -> None:
        super().__init__()
        self._sources = tuple(sources)

    async def reason(self, messages: Messages) -> str | None:
        """Whether one of the messages comes from one of the sources."""
        return next((f"'{said.source}' answered" for said in messages if said.source in self._sources), None)

    def _to_config(self) -> SourceMatchTerminationConfig:
        return SourceMatchTerminationConfig(sources=list(self._sources))

    @classmethod
    def _from_config(cls, config: SourceMatchTerminationConfig) -> Self:
        return cls(**dict(config))
