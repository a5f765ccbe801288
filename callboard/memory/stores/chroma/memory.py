"""Long-term memory in Chroma."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final, Self

from callboard.foundation.component import Component
from callboard.memory.base import MemoryContent
from callboard.memory.embedders.base import Embedder
from callboard.memory.embedders.limit import limit_of, parts_of
from callboard.memory.stores.base import Filter, MemoryStats, MemoryStore, Search
from callboard.memory.stores.records import content_of, is_expired, record_of, with_parts

from .collection import ChromaCollection, score_of
from .component import ChromaDBVectorMemoryModel, config_of, embedder_of, model_of
from .config import ChromaDBVectorMemoryConfig, PersistentChromaDBVectorMemoryConfig
from .parts import Found

MOST_ASKED: Final = 8  # parts of a long query that are looked up


class ChromaDBVectorMemory(MemoryStore, Component[ChromaDBVectorMemoryModel]):
    """A memory that finds texts close in meaning, in a collection of Chroma.

    Scores are AutoGen's: with cosine 1 - distance / 2, so 1 for the same direction and 0 for the opposite one; with l2
    1 / (1 + distance), Chroma's distance being the square; with ip the scalar product. Unlike AutoGen's, the metric is
    really the one that Chroma uses, a query takes the whole text of the last message, filters and ttl exist, and vectors
    of different models never mix: the model is stored with the collection.

    A text longer than the model reads is one memory with several vectors: it is cut into parts, each of which is looked
    at, and a query returns the whole text once, with the score of its best part. A query that is too long is looked up
    by its parts: the first four and the last four.

    One process may use a folder; a second one gets StoreLockedError. Any number may use a Chroma server.

    Args:
        config: Where and how; None: the folder ./chroma_db.
        embedder: Makes the vectors; None: `default_embedder()`, shared by all memories of the process.
        query_embedder: Makes those of queries, by the same model; None: `embedder`.
    """

    component_config_schema = ChromaDBVectorMemoryModel
    component_provider_override = "callboard.memory.ChromaDBVectorMemory"

    def __init__(
        self,
        config: ChromaDBVectorMemoryConfig | None = None,
        embedder: Embedder | None = None,
        *,
        query_embedder: Embedder | None = None,
    ) -> None:
        self.config = config or PersistentChromaDBVectorMemoryConfig()
        self._given_embedder = embedder
        self._used_embedder = embedder
        self._query_embedder = query_embedder
        self._collection = ChromaCollection(self.config)

    @property
    def collection_name(self) -> str:
        """The name of the collection in the store."""
        return self._collection.name

    async def _add(self, contents: Sequence[MemoryContent], ttl: float | None) -> list[str]:
        seconds = self.config.ttl if ttl is None else ttl
        expires = None if seconds is None else _now() + int(seconds * 1000)
        records = [record_of(content, expires) for content in contents]
        # The last of several with one id counts, as if they had come one after the other.
        unique = list({record.id: record for record in records}.values())
        if unique:
            model = await self._embedder.load()
            cut = await self._in_parts([record.text for record in unique])
            vectors = await self._embedder.embed([text for texts in cut for text in texts])
            written = [
                one for record, texts in zip(unique, cut, strict=True) for one in with_parts(record, texts)
            ]
            await asyncio.to_thread(self._collection.upsert, written, vectors, model)
        return [record.id for record in records]

    async def _in_parts(self, texts: Sequence[str]) -> list[list[str]]:
        """Each text in parts that the model reads whole."""
        limit = await limit_of(self._embedder)
        if limit is None:
            return [[text] for text in texts]
        return await asyncio.to_thread(lambda: [parts_of(text, limit) for text in texts])

    async def _find(self, search: Search) -> list[MemoryContent]:
        config = self.config
        lowest = config.score_threshold if search.score_threshold is None else search.score_threshold
        found = await self._nearest(search.text, search.k or config.k, search.where)
        scored = [(one, score_of(self._collection.metric, one.distance)) for one in found]
        return [
            content_of(one.id, one.text, one.metadata, score)
            for one, score in scored
            if lowest is None or score >= lowest
        ]

    async def _nearest(self, text: str, k: int, where: Filter | None) -> list[Found]:
        model = await self._embedder.load()
        (parts,) = await self._in_parts([text])
        if len(parts) > MOST_ASKED:
            parts = [*parts[: MOST_ASKED // 2], *parts[-MOST_ASKED // 2 :]]
        vectors = await (self._query_embedder or self._embedder).embed(parts)
        while True:
            found = await asyncio.to_thread(self._collection.nearest, vectors, model, k, where)
            now = _now()
            if not any(is_expired(one.metadata, now) for one in found):
                return found
            # Expired records took places among the k: without them the query finds others. Records that expire while
            # these are deleted are seen by the next round, so what is returned is never expired.
            await asyncio.to_thread(self._collection.forget_expired, now)

    async def ids(self, where: Filter | None = None) -> list[str]:
        await asyncio.to_thread(self._collection.forget_expired, _now())
        return await asyncio.to_thread(self._collection.ids, where)

    async def delete(self, ids: Sequence[str] = (), *, where: Filter | None = None) -> None:
        await asyncio.to_thread(self._collection.delete, list(ids), where)

    async def stats(self) -> MemoryStats:
        await asyncio.to_thread(self._collection.forget_expired, _now())
        return await asyncio.to_thread(self._collection.stats)

    async def all_stats(self) -> list[MemoryStats]:
        """The stats of every collection of the store, by name; those of other agents as well."""
        return await asyncio.to_thread(self._collection.all_stats)

    async def clear(self) -> None:
        """Forget everything. Afterwards another embedding model may be used."""
        await asyncio.to_thread(self._collection.drop)

    async def close(self) -> None:
        """Let go of the store; a store in memory is gone. The embedder stays as it is. Safe to repeat."""
        await asyncio.to_thread(self._collection.close)

    def _to_config(self) -> ChromaDBVectorMemoryModel:
        return model_of(self.config, self._given_embedder, self._query_embedder)

    @classmethod
    def _from_config(cls, config: ChromaDBVectorMemoryModel) -> Self:
        return cls(config_of(config), embedder_of(config))

    @property
    def _embedder(self) -> Embedder:
        if self._used_embedder is None:
            from callboard.memory.embedders.default import default_embedder

            self._used_embedder = default_embedder()
        return self._used_embedder


def _now() -> int:
    """Unix ms."""
    return int(time.time() * 1000)
