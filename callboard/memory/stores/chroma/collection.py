"""One collection of Chroma, for use in threads."""

from __future__ import annotations

import contextlib
import shutil
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from callboard.memory.embedders.base import EmbeddingModel, Vectors
from callboard.memory.errors import (
    EmbeddingMismatchError,
    StoreClosedError,
    StoreFullError,
)
from callboard.memory.stores.base import Filter, MemoryStats
from callboard.memory.stores.records import EXPIRES, Record, is_part

from .client import address_of, chromadb_module, close_connections, explained, new_client
from .config import (
    ChromaDBVectorMemoryConfig,
    InMemoryChromaDBVectorMemoryConfig,
    PersistentChromaDBVectorMemoryConfig,
)
from .folder_lock import StoreLock
from .parts import Found, count_parts, nearest_records, parts_of_records

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

T = TypeVar("T")

MODEL, DIMENSION = "callboard.model", "callboard.dimension"
NAMESPACE, AGENT = "callboard.namespace", "callboard.agent"
# With Chroma's own 16 neighbours, a few of some thousand texts that are alike are found by no search at all.
NEIGHBOURS: Final = 32
# Looked at for each vector that is added; with Chroma's 100 a few could not be found again.
CANDIDATES: Final = 200
LARGEST_DELETE: Final = 5_000  # ids in one call

# Chroma has one table of the systems behind its clients. Two threads that both find no row for a store there
# would start it twice on one folder; one that closes it could stop it under another that has just found its row.
_clients = threading.Lock()


class ChromaCollection:
    """A collection and the client behind it. Every method may block; any thread may call it.

    Args:
        config: Where it is.
    """

    def __init__(self, config: ChromaDBVectorMemoryConfig) -> None:
        self._config = config
        self._is_private = isinstance(config, InMemoryChromaDBVectorMemoryConfig)
        # Chroma keeps one store in memory for each process; names of their own keep collections apart in it.
        self.name = config.collection + (f"-{uuid.uuid4().hex[:8]}" if self._is_private else "")
        self._guard = threading.RLock()
        self._lock: StoreLock | None = None
        self._client: ClientAPI | None = None
        self._handle: Collection | None = None
        self._is_closed = False

    def upsert(self, records: Sequence[Record], vectors: Vectors, model: EmbeddingModel) -> None:
        """Add records, or replace those of the same ids and their parts.

        Args:
            records: Their ids differ; parts come with their record.
            vectors: One row for each.
            model: The model that made the vectors.

        Raises:
            EmbeddingMismatchError: the collection holds vectors of another model.
        """

        def write() -> None:
            self._check_room()
            handle = self._made(model)
            size = self._opened().get_max_batch_size()
            for start in range(0, len(records), size):
                part = records[start : start + size]
                handle.upsert(
                    ids=[record.id for record in part],
                    documents=[record.text for record in part],
                    metadatas=[record.metadata for record in part],
                    embeddings=vectors[start : start + size],
                )
            # Only now: parts that a record had before and has no more would be found for what it does not say any longer.
            written = {record.id for record in records}
            parts = parts_of_records(handle, [name for name in written if not is_part(name)])
            _delete(handle, [name for name in parts if name not in written])

        self._do("write", write)

    def nearest(self, vectors: Vectors, model: EmbeddingModel, k: int, where: Filter | None) -> list[Found]:
        """The records nearest to any of some vectors, each once.

        Args:
            vectors: One row for each.
            model: The model that made them.
            k: Most records.
            where: Conditions on their metadata.
        """

        def look(handle: Collection) -> list[Found]:
            self._check(handle, model)
            return nearest_records(handle, vectors, k, _conditions(where))

        return self._do_if_made("look", look, [])

    def ids(self, where: Filter | None) -> list[str]:
        """The ids of all records, or of those that fit."""
        return self._do_if_made(
            "look", lambda handle: [name for name in _ids(handle, where) if not is_part(name)], []
        )

    def delete(self, ids: Sequence[str], where: Filter | None) -> None:
        """Delete records by id and by filter. An empty filter fits all."""

        def remove(handle: Collection) -> None:
            _delete(
                handle,
                [*ids, *parts_of_records(handle, ids), *(() if where is None else _ids(handle, where))],
            )

        self._do_if_made("delete", remove, None)

    def forget_expired(self, now: int) -> None:
        """Delete the records that expired before `now`, Unix ms."""
        self.delete((), {EXPIRES: {"$lte": now}})

    def drop(self) -> None:
        """Delete the collection, so that the next record may come from another model."""

        def remove(_: Collection) -> None:
            self._opened().delete_collection(self.name)
            self._handle = None

        self._do_if_made("clear", remove, None)

    def stats(self) -> MemoryStats:
        """The stats of this collection."""
        config = self._config
        nothing = MemoryStats(
            collection=self.name,
            namespace=config.namespace,
            agent=config.agent,
            metric=config.distance_metric,
        )
        return self._do_if_made("look", _stats, nothing)

    def all_stats(self) -> list[MemoryStats]:
        """The stats of every collection of the store, by name."""
        found = self._do("look", lambda: [_stats(one) for one in self._opened().list_collections()])
        return sorted(found, key=lambda stats: stats.collection)

    @property
    def metric(self) -> str:
        """How vectors are compared; an existing collection counts, and not the configuration."""
        return self._config.distance_metric if self._handle is None else _metric(self._handle)

    def close(self) -> None:
        """Let go of the store. Safe to repeat."""
        with self._guard:
            if self._is_private and self._handle is not None:
                self.drop()
            self._is_closed = True
            self._let_go()

    def _let_go(self) -> None:
        client, self._client, self._handle = self._client, None, None
        lock, self._lock = self._lock, None
        try:
            if client is not None:
                with _clients:
                    # The type that chromadb declares lacks what the class behind it has.
                    client.close()  # type: ignore[attr-defined]
                close_connections(client)
        finally:
            if lock is not None:
                lock.release()

    def _look_at_folder(self) -> None:
        """Let go of a folder that was deleted or replaced: Chroma would go on to find what is in its deleted files."""
        with self._guard:
            if self._lock is not None and not self._lock.is_there():
                self._let_go()

    def _do_if_made(self, action: str, call: Callable[[Collection], T], otherwise: T) -> T:
        """Run a call on the collection; where there is none yet, return `otherwise`."""

        def run() -> T:
            handle = self._existing()
            return otherwise if handle is None else call(handle)

        return self._do(action, run)

    def _do(self, action: str, call: Callable[[], T]) -> T:
        """Run a call, with errors as ours.

        Another process may clear this memory between our getting the handle and our using it, and may have made a
        collection of the same name again: the handle names one that is gone. So the call is made once more, with a
        handle got anew.
        """
        not_found = chromadb_module().errors.NotFoundError
        with explained(action, self.name, address_of(self._config)):
            self._look_at_folder()
            try:
                return call()
            except not_found:
                self._handle = None
                return call()

    def _opened(self) -> ClientAPI:
        with self._guard:
            if self._is_closed:
                raise StoreClosedError(self.name)
            if self._client is None:
                self._client = self._new_client()
            return self._client

    def _new_client(self) -> ClientAPI:
        if isinstance(self._config, PersistentChromaDBVectorMemoryConfig):
            path = Path(self._config.persistence_path)
            self._lock = StoreLock(path, self._config.lock_patience)
        try:
            with _clients:
                return new_client(self._config, 0 if self._lock is None else self._lock.number)
        except BaseException:
            if self._lock is not None:
                self._lock.release()
            raise

    def _existing(self) -> Collection | None:
        client = self._opened()
        with self._guard:
            if self._handle is None:
                with contextlib.suppress(chromadb_module().errors.NotFoundError):
                    # None, else Chroma would download a model of its own.
                    self._handle = client.get_collection(self.name, embedding_function=None)
            return self._handle

    def _made(self, model: EmbeddingModel) -> Collection:
        handle = self._existing()
        if handle is None:
            config = self._config
            # The metric is set here: in metadata, where AutoGen has it, Chroma ignores it.
            index: Any = {
                "space": config.distance_metric,
                "max_neighbors": NEIGHBOURS,
                "ef_construction": CANDIDATES,
            }
            marks = {
                MODEL: model.name,
                DIMENSION: model.dimension,
                NAMESPACE: config.namespace,
                AGENT: config.agent,
            }
            # Two writers may both have found no collection: the second one gets the first one's, and checks its model.
            handle = self._opened().get_or_create_collection(
                self.name, configuration={"hnsw": index}, metadata=marks, embedding_function=None
            )
            self._handle = handle
        self._check(handle, model)
        return handle

    def _check_room(self) -> None:
        """Refuse to write to a disk that is nearly full: where it is full, Chroma hangs for ever and keeps Python's lock."""
        config = self._config
        if isinstance(config, PersistentChromaDBVectorMemoryConfig):
            self._opened()
            free = shutil.disk_usage(config.persistence_path).free
            if free < config.min_free:
                raise StoreFullError(str(config.persistence_path), free >> 20, config.min_free >> 20)

    def _check(self, handle: Collection, model: EmbeddingModel) -> None:
        metadata = handle.metadata or {}
        if MODEL not in metadata or DIMENSION not in metadata:
            raise EmbeddingMismatchError(self.name, "a model that it does not name", str(model))
        stored = EmbeddingModel(str(metadata[MODEL]), int(str(metadata[DIMENSION])))
        if not stored.makes_vectors_of(model):
            raise EmbeddingMismatchError(self.name, str(stored), str(model))


def score_of(metric: str, distance: float) -> float:
    """The score for a distance of Chroma's; see ChromaDBVectorMemory."""
    if metric == "l2":
        return 1.0 / (1.0 + distance)
    return 1.0 - distance / 2.0 if metric == "cosine" else 1.0 - distance


def _ids(handle: Collection, where: Filter | None) -> list[str]:
    return list(handle.get(where=_conditions(where), include=[])["ids"])


def _delete(handle: Collection, ids: Sequence[str]) -> None:
    for start in range(0, len(ids), LARGEST_DELETE):
        handle.delete(ids=list(ids[start : start + LARGEST_DELETE]))


def _metric(handle: Collection) -> str:
    space: Any = (handle.configuration_json.get("hnsw") or {}).get("space")
    return str(space or "l2")


def _stats(handle: Collection) -> MemoryStats:
    metadata = handle.metadata or {}
    dimension = metadata.get(DIMENSION)
    return MemoryStats(
        collection=handle.name,
        namespace=metadata.get(NAMESPACE),
        agent=metadata.get(AGENT),
        count=handle.count() - count_parts(handle),
        model=metadata.get(MODEL),
        dimension=dimension if isinstance(dimension, int) else None,
        metric=_metric(handle),
    )


def _conditions(where: Filter | None) -> dict[str, Any] | None:
    """A filter as Chroma takes it: one condition only, so several are joined."""
    if not where:
        return None
    if len(where) == 1:
        return dict(where)
    return {"$and": [{key: value} for key, value in where.items()]}
