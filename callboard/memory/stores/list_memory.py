"""The simplest memory: a list, all of which is always relevant."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Self

from pydantic import BaseModel, Field, field_validator

from callboard.foundation.component import Component
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


class ListMemoryConfig(BaseModel):
    """A ListMemory as plain data, contents included; its fields are the arguments of ListMemory."""

    name: str | None = None
    memory_contents: list[MemoryContent] = Field(default_factory=list)

    @field_validator("memory_contents", mode="before")
    @classmethod
    def _from_json(cls, contents: Any) -> Any:
        """Contents that are plain data are read as JSON, where bytes are base64."""
        if not isinstance(contents, list):
            return contents
        return [
            MemoryContent.model_validate_json(json.dumps(one)) if isinstance(one, dict) else one
            for one in contents
        ]


class ListMemory(Memory, Component[ListMemoryConfig]):
    """A memory that keeps contents in the order in which they came, in this process only.

    Every query finds all of it, so it is for a handful of facts or preferences.

    Args:
        name: Tells memories apart; default "default_list_memory".
        memory_contents: The contents at first.
    """

    component_config_schema = ListMemoryConfig
    component_provider_override = "callboard.memory.ListMemory"

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

    def _to_config(self) -> ListMemoryConfig:
        return ListMemoryConfig(name=self._name, memory_contents=self._contents)

    @classmethod
    def _from_config(cls, config: ListMemoryConfig) -> Self:
        return cls(config.name, config.memory_contents)
