"""Ends a conversation when somebody has spoken."""

from __future__ import annotations

from collections.abc import Sequence

from .base import Messages
from .latched import LatchedTermination


class SourceMatchTermination(LatchedTermination):
    """Is reached when one of several sources says something; an event counts, too.

    Args:
        sources: Names of agents.
    """

    def __init__(self, sources: Sequence[str]) -> None:
        super().__init__()
        self._sources = tuple(sources)

    async def reason(self, messages: Messages) -> str | None:
        """Whether one of the messages comes from one of the sources."""
        return next((f"'{said.source}' answered" for said in messages if said.source in self._sources), None)
