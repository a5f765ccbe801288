"""Long-term memory in Chroma."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from .base import Cancellation, MemoryContent, MemoryQueryResult, cancellable
from .chroma import ChromaCollection, Found, score_of
from .chroma_configs import (
    ChromaDBVectorMemoryConfig,
    PersistentChromaDBVectorMemoryConfig,
    check_k,
    check_threshold,
    check_ttl,
)
from .embedder import Embedder
from .records import Record, content_of, is_expired, record_of
from .store import Filter, MemoryStats, MemoryStore, refuse_unknown

T = TypeVar("T")


class ChromaDBVectorMemory(MemoryStore):
    """Finds what is close in meaning, in a collection of Chroma.

    Scores are AutoGen's: with cosine 1 - distance / 2, so 1 for the same direction and 0 for the opposite one; with l2
    1 / (1 + distance), Chroma's distance being the square; with ip the scalar product. Unlike AutoGen's, the metric is
    really the one that Chroma uses, a query takes the whole text of the last message, filters and ttl exist, and vectors
    of different models never mix: the model is stored with the collection.

    One process may use a folder; a second one gets StoreLockedError. Any number may use a Chroma server.

    Args:
        config: Where and how; None: the folder ./chroma_db.
        embedder: Makes the vectors; None: `default_embedder()`, shared by all memories of the process.
    """

    def __init__(
        self, config: ChromaDBVectorMemoryConfig | None = None, embedder: Embedder | None = None
    ) -> None:
        self.config = config or PersistentChromaDBVectorMemoryConfig()
        self._embedder = embedder
        self._collection = ChromaCollection(self.config)

    @property
    def collection_name(self) -> str:
        """The name of the collection in the store."""
        return self._collection.name

    async def add_many(
        self,
        contents: Sequence[MemoryContent],
        cancellation_token: Cancellation | None = None,
        *,
        ttl: float | None = None,
    ) -> list[str]:
        expires = _expiry(self.config.ttl if ttl is None else check_ttl(ttl))
        records = [record_of(content, expires) for content in contents]
        if records:
            await cancellable(cancellation_token, self._write(records))
        return [record.id for record in records]

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
        refuse_unknown(kwargs)
        text = query if isinstance(query, str) else query.text
        most = self.config.k if k is None else check_k(k)
        lowest = self.config.score_threshold if score_threshold is None else check_threshold(score_threshold)
        found = await cancellable(cancellation_token, self._look(text, most, where))
        metric = self._collection.metric
        results = [
            content_of(one.id, one.text, one.metadata, score_of(metric, one.distance)) for one in found
        ]
        if lowest is not None:
            results = [one for one in results if (one.metadata or {})["score"] >= lowest]
        return MemoryQueryResult(results=results)

    async def ids(self, where: Filter | None = None) -> list[str]:
        await self._in_thread(self._collection.forget_expired, _now())
        return await self._in_thread(self._collection.ids, where)

    async def delete(self, ids: Sequence[str] = (), *, where: Filter | None = None) -> None:
        await self._in_thread(self._collection.delete, list(ids), where)

    async def stats(self) -> MemoryStats:
        await self._in_thread(self._collection.forget_expired, _now())
        return await self._in_thread(self._collection.stats)

    async def all_stats(self) -> list[MemoryStats]:
        """How every collection of the store stands, by name; those of other agents as well."""
        return await self._in_thread(self._collection.all_stats)

    async def clear(self) -> None:
        """Forget everything. Afterwards another embedding model may be used."""
        await self._in_thread(self._collection.drop)

    async def close(self) -> None:
        """Let go of the store; what is in memory only is gone. The embedder stays as it is. Safe to repeat."""
        await self._in_thread(self._collection.close)

    async def _write(self, records: Sequence[Record]) -> None:
        # The last of several with one id counts, as if they had come one after the other.
        unique = list({record.id: record for record in records}.values())
        embedder = self._embedding()
        model = await embedder.load()
        vectors = await embedder.embed([record.text for record in unique])
        await self._in_thread(self._collection.upsert, unique, vectors, model)

    async def _look(self, text: str, k: int, where: Filter | None) -> list[Found]:
        embedder = self._embedding()
        model = await embedder.load()
        vector = await embedder.embed([text])
        while True:
            found = await self._in_thread(self._collection.nearest, vector, model, k, where)
            now = _now()
            if not any(is_expired(one.metadata, now) for one in found):
                return found
            await self._in_thread(self._collection.forget_expired, now)

    def _embedding(self) -> Embedder:
        if self._embedder is None:
            from .embeddings import default_embedder

            self._embedder = default_embedder()
        return self._embedder

    @staticmethod
    async def _in_thread(function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.to_thread(function, *arguments)


def _now() -> int:
    """Unix ms."""
    return int(time.time() * 1000)


def _expiry(ttl: float | None) -> int | None:
    return None if ttl is None else _now() + int(ttl * 1000)
