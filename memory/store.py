"""Memories that find by meaning and know their records by id."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict

from .base import (
    Cancellation,
    Memory,
    MemoryContent,
    MemoryQueryResult,
    ModelContext,
    UpdateContextResult,
    add_to_context,
    last_text,
)

TITLE = "Relevant memory content"

Filter: TypeAlias = Mapping[str, Any]
"""What metadata have to be: `{"topic": "birds"}`, `{"year": {"$gte": 1990}, "kind": {"$in": ["a", "b"]}}`."""


class MemoryStats(BaseModel):
    """How a collection stands.

    Attributes:
        collection: its name in the store.
        namespace: whose memories they are; None: made by something else.
        agent: which agent's; None: as above.
        count: memories in it.
        model: the embedding model of its vectors; None while it holds nothing, or when it is not known.
        dimension: numbers in a vector; None as above.
        metric: how vectors are compared.
    """

    model_config = ConfigDict(frozen=True)

    collection: str
    namespace: str | None = None
    agent: str | None = None
    count: int = 0
    model: str | None = None
    dimension: int | None = None
    metric: str = "cosine"


class MemoryStore(Memory):
    """A memory with records: what was added can be replaced and deleted by id, and filtered by its metadata."""

    @abstractmethod
    async def add_many(
        self,
        contents: Sequence[MemoryContent],
        cancellation_token: Cancellation | None = None,
        *,
        ttl: float | None = None,
    ) -> list[str]:
        """Remember several things in one go, which is much faster than one after the other.

        Args:
            contents: Texts, Markdown or JSON. `metadata["id"]` is the id of the record, which replaces one of
                that id; without it, a new one is made.
            cancellation_token: Ends the wait.
            ttl: Seconds after which they are forgotten; None: as configured.

        Returns:
            Their ids, in order.

        Raises:
            ContentKindError: one is no text.
            MetadataError: metadata of one can't be stored.
        """

    @abstractmethod
    async def query(
        self,
        query: str | MemoryContent,
        cancellation_token: Cancellation | None = None,
        *,
        k: int | None = None,
        score_threshold: float | None = None,
        where: Filter | None = None,
        **kwargs: Any,
    ) -> MemoryQueryResult:
        """What is remembered about something, the best first.

        Args:
            query: A text, or a content with one.
            cancellation_token: Ends the wait.
            k: Most results; None: as configured.
            score_threshold: Lowest score; None: as configured.
            where: What their metadata have to be.
            **kwargs: None are known.

        Returns:
            Contents whose metadata have `id` and `score`.

        Raises:
            FilterError: the filter is not understood.
            TypeError: there is such a keyword argument.
        """

    @abstractmethod
    async def ids(self, where: Filter | None = None) -> list[str]:
        """The ids of all records, or of those whose metadata fit."""

    @abstractmethod
    async def delete(self, ids: Sequence[str] = (), *, where: Filter | None = None) -> None:
        """Forget records by id, and all whose metadata fit. What is not there is no error."""

    @abstractmethod
    async def stats(self) -> MemoryStats:
        """How many records there are, and what their vectors are."""

    async def add(
        self,
        content: MemoryContent,
        cancellation_token: Cancellation | None = None,
        *,
        ttl: float | None = None,
    ) -> None:
        """Remember something; see `add_many`."""
        await self.add_many((content,), cancellation_token, ttl=ttl)

    async def update_context(self, model_context: ModelContext) -> UpdateContextResult:
        """Look for what the last message is about, and add what was found as one system message."""
        text = await last_text(model_context)
        found = await self.query(text) if text else MemoryQueryResult()
        return await add_to_context(model_context, TITLE, found.results)


def refuse_unknown(arguments: Mapping[str, Any]) -> None:
    """Raises TypeError for keyword arguments that are left over."""
    if arguments:
        raise TypeError(f"query() got an unexpected keyword argument {next(iter(arguments))!r}")
