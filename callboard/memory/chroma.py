"""Long-term memory in Chroma, and its plain data with the fields that AutoGen writes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Final, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict

from callboard.foundation.component import (
    Component,
    ComponentConfigError,
    ComponentNotAllowedError,
    NotDumpableError,
    harmless,
    permissions,
)

from .base import MemoryContent
from .chroma_collection import ChromaCollection, Found, score_of
from .chroma_config import (
    ChromaDBVectorMemoryConfig,
    DistanceMetric,
    HttpChromaDBVectorMemoryConfig,
    InMemoryChromaDBVectorMemoryConfig,
    PersistentChromaDBVectorMemoryConfig,
)
from .chroma_index import in_batches
from .embedders import Embedder, limit_of, parts_of
from .errors import LongTermMemoryError, MemoryFailedError
from .local_embedders import SentenceTransformerEmbedder
from .stores import (
    Filter,
    MemoryCheck,
    MemoryStats,
    MemoryStore,
    Search,
    content_of,
    is_expired,
    record_id,
    record_of,
    with_parts,
)

logger = logging.getLogger("callboard.memory")

NAME: Final = "callboard.memory.ChromaDBVectorMemory"
ClientType: TypeAlias = Literal["persistent", "http", "memory"]
CONFIGS: Final[Mapping[ClientType, type[ChromaDBVectorMemoryConfig]]] = {
    "persistent": PersistentChromaDBVectorMemoryConfig,
    "http": HttpChromaDBVectorMemoryConfig,
    "memory": InMemoryChromaDBVectorMemoryConfig,
}


class EmbeddingFunctionModel(BaseModel):
    """An embedder as plain data.

    Attributes:
        function_type: "default" is `default_embedder()`; what it is otherwise, as AutoGen calls it.
        model_name: its model.
    """

    model_config = ConfigDict(protected_namespaces=())

    function_type: str = "default"
    model_name: str | None = None


class ChromaDBVectorMemoryModel(BaseModel):
    """A ChromaDBVectorMemory as plain data; its fields are those of the configurations, which explain them.

    Headers with a secret are in no dump.

    Attributes:
        client_type: which of the configurations it is.
        allow_reset: AutoGen's; it is read and means nothing.
        embedding_function_config: the embedder.
    """

    client_type: ClientType = "persistent"
    collection_name: str | None = None
    namespace: str | None = None
    agent: str | None = None
    distance_metric: DistanceMetric | None = None
    k: int | None = None
    score_threshold: float | None = None
    ttl: float | None = None
    tenant: str | None = None
    database: str | None = None
    persistence_path: str | None = None
    lock_patience: float | None = None
    min_free: int | None = None
    host: str | None = None
    port: int | None = None
    ssl: bool | None = None
    headers: dict[str, str] | None = None
    allow_reset: bool | None = None
    embedding_function_config: EmbeddingFunctionModel = EmbeddingFunctionModel()


def model_of(
    config: ChromaDBVectorMemoryConfig, embedder: Embedder | None, query_embedder: Embedder | None
) -> ChromaDBVectorMemoryModel:
    """A memory as plain data.

    Raises:
        NotDumpableError: its configuration or embedder can't be written down (a TypeError).
    """
    kind: ClientType | None = next((name for name, made in CONFIGS.items() if type(config) is made), None)
    if kind is None:
        raise NotDumpableError(
            NAME, f"{type(config).__name__} is none of the configurations that have a name"
        )
    values = asdict(config)
    if "persistence_path" in values:
        values["persistence_path"] = str(values["persistence_path"])
    if "headers" in values:
        values["headers"] = harmless(values["headers"])
    embedding = _model_of_embedder(embedder, query_embedder)
    return ChromaDBVectorMemoryModel(client_type=kind, embedding_function_config=embedding, **values)


def config_of(model: ChromaDBVectorMemoryModel) -> ChromaDBVectorMemoryConfig:
    """The configuration of a memory.

    Raises:
        ComponentNotAllowedError: it is on a server that the caller did not allow (a ValueError).
    """
    kind = CONFIGS[model.client_type]
    given = {field.name: getattr(model, field.name) for field in fields(kind)}
    made = kind(**{name: value for name, value in given.items() if value is not None})
    # Chroma's client looks names up by itself, so that no address can be checked
    if isinstance(made, HttpChromaDBVectorMemoryConfig) and made.host not in permissions().hosts:
        raise ComponentNotAllowedError(f"keeping memories on the server {made.host}", "hosts", made.host)
    return made


def embedder_of(model: ChromaDBVectorMemoryModel) -> Embedder | None:
    """The embedder of a memory; None: that of the process.

    Raises:
        ComponentConfigError: it is of a kind that is not made here (a ValueError).
    """
    wanted = model.embedding_function_config
    if wanted.function_type == "default":
        return None
    if wanted.function_type == "sentence_transformer":
        return SentenceTransformerEmbedder(wanted.model_name)
    reason = (
        f"embedding_function_config: {wanted.function_type!r} is neither 'default' nor 'sentence_transformer'; "
        "for any other embedder make the memory in the program"
    )
    raise ComponentConfigError(NAME, [reason])


def _model_of_embedder(embedder: Embedder | None, query_embedder: Embedder | None) -> EmbeddingFunctionModel:
    if query_embedder is not None:
        raise NotDumpableError(NAME, "query_embedder can't be written down")
    if embedder is None:
        return EmbeddingFunctionModel()
    if not isinstance(embedder, SentenceTransformerEmbedder):
        kind = type(embedder).__name__
        raise NotDumpableError(
            NAME, f"its {kind} can't be written down: leave out embedder, or make it yourself"
        )
    name = None if embedder.source is None else str(embedder.source)
    return EmbeddingFunctionModel(function_type="sentence_transformer", model_name=name)


MOST_ASKED: Final = 8  # parts of a long query that are looked up
LONGEST_WAIT: Final = 10.0  # seconds that a call waits until what the index lost is written again
ROUNDS: Final = 3  # attempts at that


class ChromaDBVectorMemory(MemoryStore, Component[ChromaDBVectorMemoryModel]):
    """A memory that finds texts close in meaning, in a collection of Chroma.

    Scores are AutoGen's: with cosine 1 - distance / 2, so 1 for the same direction and 0 for the opposite one; with l2
    1 / (1 + distance), Chroma's distance being the square; with ip the scalar product. Unlike AutoGen's, the metric is
    really the one that Chroma uses, a query takes the whole text of the last message, filters and ttl exist, and vectors
    of different models never mix: the model is stored with the collection.

    A text longer than the model reads is one memory with several vectors: it is cut into parts, each of which is looked
    at, and a query returns the whole text once, with the score of its best part. A query that is too long is looked up
    by its parts: the first four and the last four.

    What the index of a folder has lost, as after a kill, is looked for when the folder is opened, and written again: see
    `verify`. A call waits ten seconds at most for that.

    One process may use a folder; a second one gets MemoryFailedError. Any number may use a Chroma server.

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
        self._is_looked_through = not isinstance(self.config, PersistentChromaDBVectorMemoryConfig)
        self._mending: asyncio.Task[None] | None = None

    @property
    def collection_name(self) -> str:
        """The name of the collection in the store."""
        return self._collection.name

    def take_over_from(self, namespace: str) -> None:
        """Let the folder's memories that no namespace has for itself, as stores of older versions had, belong to this one.

        It is done when the folder is opened. On a Chroma server nothing is done: other processes may use it.

        Args:
            namespace: What they are named after.
        """
        self._collection.former = namespace

    async def _add(self, contents: Sequence[MemoryContent], ttl: float | None) -> list[str]:
        seconds = self.config.ttl if ttl is None else ttl
        expires = None if seconds is None else _now() + int(seconds * 1000)
        records = [record_of(content, expires) for content in contents]
        # The last of several with one id counts, as if they had come one after the other.
        unique = list({record.id: record for record in records}.values())
        if unique:
            await self._ready()
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
        await self._ready()
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

    async def verify(self, *, repair: bool = True) -> MemoryCheck:
        """See MemoryStore: each memory is looked for by its own vector."""
        lost = await asyncio.to_thread(self._collection.lost)
        stats = await asyncio.to_thread(self._collection.stats)
        left = await self._written_again(lost) if lost and repair else lost
        return MemoryCheck(
            collection=stats.collection,
            namespace=stats.namespace,
            agent=stats.agent,
            count=stats.count,
            lost=len({record_id(name) for name in lost}),
            left=len({record_id(name) for name in left}),
        )

    async def _ready(self) -> None:
        """Let what the index lost be written again, once for each opening of a folder; wait for it, but not for ever."""
        if not self._is_looked_through:
            # Opened first: that the folder is locked is for the caller to hear.
            is_first = await asyncio.to_thread(self._collection.is_first_opened)
            self._is_looked_through = True
            # guard: what the index lost is looked for when its folder is opened
            if is_first:
                self._mending = asyncio.create_task(self._mended())
        if self._mending is not None and not self._mending.done():
            await asyncio.wait({self._mending}, timeout=LONGEST_WAIT)

    async def _mended(self) -> None:
        try:
            check = await self.verify()
        except LongTermMemoryError as error:
            if self._collection.is_closed:
                return
            logger.error("the memory %s could not be looked through: %s", self.collection_name, error)
            return
        if check.lost:
            logger.warning(
                "no search found %d of the %d memories in %s; %d of them were added again",
                check.lost,
                check.count,
                check.collection,
                check.lost - check.left,
            )

    async def _written_again(self, lost: Sequence[str]) -> Sequence[str]:
        """Write records again, from their texts; those that are lost nevertheless."""
        for attempt in range(ROUNDS):
            for some in in_batches(lost):
                if not await self._write_again(some, is_first=not attempt):
                    break
            lost = await asyncio.to_thread(self._collection.lost)
            if not lost:
                break
        return lost

    async def _write_again(self, ids: Sequence[str], *, is_first: bool) -> bool:
        """Write some records again; False: it has a new index now, in which all are lost."""
        records = await asyncio.to_thread(self._collection.records, ids)
        if not records:
            return True
        model = await self._embedder.load()
        cut = await self._in_parts([record.text for record in records])
        vectors = await self._embedder.embed([texts[0] for texts in cut])
        try:
            await asyncio.to_thread(self._collection.write_again, records, vectors, model)
        except MemoryFailedError:
            # Its files are damaged: without them Chroma begins anew.
            if not is_first or not await asyncio.to_thread(self._collection.drop_index):
                raise
            return False
        return True

    async def clear(self) -> None:
        """Forget everything. Afterwards another embedding model may be used."""
        await asyncio.to_thread(self._collection.drop)

    async def close(self) -> None:
        """Let go of the store; a store in memory is gone. The embedder stays as it is. Safe to repeat."""
        self._collection.begin_close()
        if self._mending is not None and not self._mending.done():
            await asyncio.wait({self._mending})
        await asyncio.to_thread(self._collection.close)

    def _to_config(self) -> ChromaDBVectorMemoryModel:
        return model_of(self.config, self._given_embedder, self._query_embedder)

    @classmethod
    def _from_config(cls, config: ChromaDBVectorMemoryModel) -> Self:
        return cls(config_of(config), embedder_of(config))

    @property
    def _embedder(self) -> Embedder:
        if self._used_embedder is None:
            from .local_embedders import default_embedder

            self._used_embedder = default_embedder()
        return self._used_embedder


def _now() -> int:
    """Unix ms."""
    return int(time.time() * 1000)
