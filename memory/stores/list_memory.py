"""The simplest memory: a list, all of which is always relevant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from callboard.memory.base import (
    Memory,
    MemoryContent,
    MemoryQueryResult,
    ModelContext,
    UpdateContextResult,
    add_to_context,
)
from callboard.memory.cancelling import Cancellation

TITLE = "Relevant memory content (in chronological order)"


class ListMemory(Memory):
    """A memory that keeps contents in the order in which they came, in this process only.

    Every query finds all of it, so it is for a handful of facts or preferences.

    Args:
        name: Tells memories apart; default "default_list_memory".
        memory_contents: The contents at first.
    """

    def __init__(
        self, name: str | None = None, memory_contents: Iterable[MemoryContent] | None = None
    ) -> None:
        self._name = name or "default_list_memory"
        self._contents = list(memory_contents or ())

    @property
    def name(self) -> str:
        """The name of this memory."""
        return self._name

    @property
    def content(self) -> list[MemoryContent]:
        """The contents; assigning replaces them."""
        return self._contents

    @content.setter
    def content(self, value: list[MemoryContent]) -> None:
        self._contents = value

    async def update_context(self, model_context: ModelContext) -> UpdateContextResult:
        return await add_to_context(model_context, TITLE, self._contents)

    async def query(
        self,
        query: str | MemoryContent = "",
        cancellation_token: Cancellation | None = None,
        **kwargs: Any,
    ) -> MemoryQueryResult:
        return MemoryQueryResult(results=list(self._contents))

    async def add(self, content: MemoryContent, cancellation_token: Cancellation | None = None) -> None:
        self._contents.append(content)

    async def clear(self) -> None:
        self._contents = []

    async def close(self) -> None:
        pass
