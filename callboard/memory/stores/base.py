"""The interface of stores: memories that find by meaning and know their records by id.

`MemoryStore` checks arguments and ends waits; a store adds `_add`, `_find` and the abstract methods of its records.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict

from callboard.memory.base import (
    Memory,
    MemoryContent,
    MemoryQueryResult,
    ModelContext,
    UpdateContextResult,
    add_to_context,
    last_text,
)
from callboard.memory.cancelling import Cancellation, cancellable
from callboard.memory.errors import MemorySettingError

TITLE: Final = "Relevant memory content"

Filter: TypeAlias = Mapping[str, Any]
"""Conditions on metadata: `{"topic": "birds"}`, `{"year": {"$gte": 1990}, "kind": {"$in": ["a", "b"]}}`."""


class MemoryStats(BaseModel):
    """The size and the kind of a collection.

    Attributes:
        collection: its name in the store.
        namespace: of the agent whose memories they are; None: another program made the collection.
        agent: whose memories they are; None: as above.
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


@dataclass(frozen=True, slots=True)
class Search:
    """The arguments of one query, checked. None: as the store is configured.

    Attributes:
        text: to look for.
        k: most results.
        score_threshold: lowest score.
        where: conditions on the metadata.

    Raises:
        MemorySettingError: a value can't work (a ValueError).
    """

    text: str
    k: int | None = None
    score_threshold: float | None = None
    where: Filter | None = None

    def __post_init__(self) -> None:
        check_k(self.k)
        check_threshold(self.score_threshold)


class MemoryStore(Memory):
    """A memory with records: they can be replaced and deleted by id, and filtered by their metadata."""

    @abstractmethod
    async def _add(self, contents: Sequence[MemoryContent], ttl: float | None) -> list[str]:
        """Remember contents; see `add_many`."""

    @abstractmethod
    async def _find(self, search: Search) -> list[MemoryContent]:
        """Contents that fit, the best first, with `id` and `score` in their metadata."""

    @abstractmethod
    async def ids(self, where: Filter | None = None) -> list[str]:
        """The ids of all records, or of those whose metadata fit."""

    @abstractmethod
    async def delete(self, ids: Sequence[str] = (), *, where: Filter | None = None) -> None:
        """Forget records by id, and all whose metadata fit. An id that is not there is no error."""

    @abstractmethod
    async def stats(self) -> MemoryStats:
        """How many records there are, and which vectors they have."""

    async def all_stats(self) -> list[MemoryStats]:
        """The stats of every collection in the same place, by name; of this one alone where a store has no others."""
        return [await self.stats()]

    async def add_many(
        self,
        contents: Sequence[MemoryContent],
        cancellation_token: Cancellation | None = None,
        *,
        ttl: float | None = None,
    ) -> list[str]:
        """Remember several contents in one go, which is much faster than one after the other.

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
        return await cancellable(self._add(contents, check_ttl(ttl)), cancellation_token)

    async def add(
        self,
        content: MemoryContent,
        cancellation_token: Cancellation | None = None,
        *,
        ttl: float | None = None,
    ) -> None:
        """Remember a content; see `add_many`."""
        await self.add_many((content,), cancellation_token, ttl=ttl)

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
        """The memories about something, the best first.

        Args:
            query: A text, or a content with one.
            cancellation_token: Ends the wait.
            k: Most results; None: as configured.
            score_threshold: Lowest score; None: as configured.
            where: Conditions on the metadata.
            **kwargs: None are known.

        Returns:
            Contents whose metadata have `id` and `score`.

        Raises:
            FilterError: the filter is not understood.
            TypeError: there is no such keyword argument.
        """
        if kwargs:
            raise TypeError(f"query() got an unexpected keyword argument {next(iter(kwargs))!r}")
        search = Search(query if isinstance(query, str) else query.text, k, score_threshold, where)
        return MemoryQueryResult(results=await cancellable(self._find(search), cancellation_token))

    async def update_context(self, model_context: ModelContext) -> UpdateContextResult:
        """Look for memories about the last message, and add them as one system message."""
        text = await last_text(model_context)
        found = await self.query(text) if text else MemoryQueryResult()
        return await add_to_context(model_context, TITLE, found.results)


def check_k(k: int | None) -> int | None:
    """A number of results.

    Raises:
        MemorySettingError: it is not at least 1.
    """
    if k is not None and (k < 1 or k != int(k)):
        raise MemorySettingError("k", repr(k), "a whole number, 1 or more")
    return k


def check_threshold(threshold: float | None) -> float | None:
    """A lowest score.

    Raises:
        MemorySettingError: it is no number.
    """
    if threshold is not None and not math.isfinite(threshold):
        raise MemorySettingError("score_threshold", repr(threshold), "a number")
    return threshold


def check_ttl(ttl: float | None) -> float | None:
    """A life time in seconds.

    Raises:
        MemorySettingError: it is not above 0.
    """
    if ttl is not None and not (math.isfinite(ttl) and ttl > 0):
        raise MemorySettingError("ttl", repr(ttl), "a number of seconds above 0")
    return ttl
