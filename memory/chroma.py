"""One collection of Chroma, for use in threads. The only module that imports chromadb."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from .chroma_configs import (
    ChromaDBVectorMemoryConfig,
    HttpChromaDBVectorMemoryConfig,
    InMemoryChromaDBVectorMemoryConfig,
    PersistentChromaDBVectorMemoryConfig,
)
from .embedder import EmbeddingModel
from .errors import (
    EmbeddingMismatchError,
    FilterError,
    LongTermMemoryError,
    MissingPackageError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
)
from .records import EXPIRES, Record
from .store import Filter, MemoryStats
from .store_lock import StoreLock

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

    from .embedder import Vectors

T = TypeVar("T")

MODEL, DIMENSION = "callboard.model", "callboard.dimension"
NAMESPACE, AGENT = "callboard.namespace", "callboard.agent"
# With Chroma's own 16 neighbours, a few of some thousand texts that are alike are found by no search at all.
NEIGHBOURS: Final = 32
CANDIDATES: Final = (
    200  # looked at for each vector that is added; with Chroma's 100 a few could not be found again
)
LARGEST_DELETE: Final = 5_000  # ids in one call


# Chroma keeps what clients of one store share in a table that threads must not fill at the same time.
_clients = threading.Lock()


class Found(NamedTuple):
    """A record near a vector. `distance` is Chroma's."""

    id: str
    text: str
    metadata: dict[str, Any] | None
    distance: float


class ChromaCollection:
    """A collection and the client it is reached by. Every method may block; any thread may call them.

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
        """Adds records, or replaces those of the same ids.

        Args:
            records: Their ids differ.
            vectors: One row for each.
            model: What made the vectors.

        Raises:
            EmbeddingMismatchError: the collection holds vectors of another model.
        """

        def write() -> None:
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

        self._do("write", write)

    def nearest(self, vector: Vectors, model: EmbeddingModel, k: int, where: Filter | None) -> list[Found]:
        """The records nearest to a vector.

        Args:
            vector: One row.
            model: What made it.
            k: Most records.
            where: What their metadata have to be.
        """

        def look() -> list[Found]:
            handle = self._existing()
            if handle is None:
                return []
            self._check(handle, model)
            found: Any = handle.query(
                query_embeddings=vector,
                n_results=k,
                where=_conditions(where),
                include=["documents", "metadatas", "distances"],
            )
            columns = (found[name][0] for name in ("ids", "documents", "metadatas", "distances"))
            return [Found(*row) for row in zip(*columns, strict=True)]

        return self._do("look", look)

    def ids(self, where: Filter | None) -> list[str]:
        """Ids of all records, or of those that fit."""

        def look() -> list[str]:
            handle = self._existing()
            return [] if handle is None else list(handle.get(where=_conditions(where), include=[])["ids"])

        return self._do("look", look)

    def delete(self, ids: Sequence[str], where: Filter | None) -> None:
        """Deletes records by id and by filter. An empty filter fits all."""

        def remove() -> None:
            handle = self._existing()
            if handle is None:
                return
            doomed = list(ids)
            if where is not None:
                doomed += handle.get(where=_conditions(where), include=[])["ids"]
            for start in range(0, len(doomed), LARGEST_DELETE):
                handle.delete(ids=doomed[start : start + LARGEST_DELETE])

        self._do("delete", remove)

    def forget_expired(self, now: int) -> None:
        """Deletes what expired before `now`, Unix ms."""
        self.delete((), {EXPIRES: {"$lte": now}})

    def drop(self) -> None:
        """Deletes the collection, so that the next record may come from another model."""

        def remove() -> None:
            if self._existing() is not None:
                self._opened().delete_collection(self.name)
                self._handle = None

        self._do("clear", remove)

    def stats(self) -> MemoryStats:
        """How it stands."""

        def look() -> MemoryStats:
            handle = self._existing()
            if handle is not None:
                return _stats(handle)
            config = self._config
            return MemoryStats(
                collection=self.name,
                namespace=config.namespace,
                agent=config.agent,
                metric=config.distance_metric,
            )

        return self._do("look", look)

    def all_stats(self) -> list[MemoryStats]:
        """How every collection of the store stands, by name."""
        found = self._do("look", lambda: [_stats(one) for one in self._opened().list_collections()])
        return sorted(found, key=lambda stats: stats.collection)

    @property
    def metric(self) -> str:
        """How vectors are compared; the collection knows better than the configuration."""
        return self._config.distance_metric if self._handle is None else _metric(self._handle)

    def close(self) -> None:
        """Lets go of the store. Safe to repeat."""
        with self._guard:
            if self._is_private and self._handle is not None:
                self.drop()
            self._is_closed = True
            client, self._client, self._handle = self._client, None, None
            lock, self._lock = self._lock, None
            try:
                if client is not None:
                    with _clients:
                        # The type that chromadb declares lacks what the class behind it has.
                        client.close()  # type: ignore[attr-defined]
            finally:
                if lock is not None:
                    lock.release()

    def _do(self, action: str, call: Callable[[], T]) -> T:
        """Runs a call; once more when somebody else deleted the collection, and made it again, in between."""
        from_chroma = _chromadb().errors.NotFoundError
        with _explained(action, self.name, _place(self._config)):
            try:
                return call()
            except from_chroma:
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
                return _client(self._config)
        except BaseException:
            if self._lock is not None:
                self._lock.release()
            raise

    def _existing(self) -> Collection | None:
        client = self._opened()
        with self._guard:
            if self._handle is None:
                with contextlib.suppress(_chromadb().errors.NotFoundError):
                    # None, else Chroma would download a model of its own.
                    self._handle = client.get_collection(self.name, embedding_function=None)
            return self._handle

    def _made(self, model: EmbeddingModel) -> Collection:
        handle = self._existing()
        if handle is None:
            config = self._config
            handle = self._opened().get_or_create_collection(
                self.name,
                # In metadata, where AutoGen has it, Chroma ignores it.
                configuration={
                    "hnsw": {
                        "space": config.distance_metric,
                        "max_neighbors": NEIGHBOURS,
                        "ef_construction": CANDIDATES,
                    }
                },
                metadata={
                    MODEL: model.name,
                    DIMENSION: model.dimension,
                    NAMESPACE: config.namespace,
                    AGENT: config.agent,
                },
                embedding_function=None,
            )
            self._handle = handle
        self._check(handle, model)
        return handle

    def _check(self, handle: Collection, model: EmbeddingModel) -> None:
        metadata = handle.metadata or {}
        if MODEL not in metadata or DIMENSION not in metadata:
            raise EmbeddingMismatchError(self.name, "a model that it does not name", str(model))
        stored = EmbeddingModel(str(metadata[MODEL]), int(str(metadata[DIMENSION])))
        if not stored.makes_vectors_of(model):
            raise EmbeddingMismatchError(self.name, str(stored), str(model))


def score_of(metric: str, distance: float) -> float:
    """What Chroma's distance is worth; see ChromaDBVectorMemory."""
    if metric == "l2":
        return 1.0 / (1.0 + distance)
    return 1.0 - distance / 2.0 if metric == "cosine" else 1.0 - distance


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
        count=handle.count(),
        model=metadata.get(MODEL),
        dimension=dimension if isinstance(dimension, int) else None,
        metric=_metric(handle),
    )


def _conditions(where: Filter | None) -> dict[str, Any] | None:
    """Chroma takes one condition only; several have to be joined."""
    if not where:
        return None
    if len(where) == 1:
        return dict(where)
    return {"$and": [{key: value} for key, value in where.items()]}


def _place(config: ChromaDBVectorMemoryConfig) -> str:
    if isinstance(config, HttpChromaDBVectorMemoryConfig):
        return f"{'https' if config.ssl else 'http'}://{config.host}:{config.port}"
    if isinstance(config, PersistentChromaDBVectorMemoryConfig):
        return str(config.persistence_path)
    return "this process"


def _client(config: ChromaDBVectorMemoryConfig) -> ClientAPI:
    chromadb = _chromadb()
    common = {
        "settings": chromadb.config.Settings(anonymized_telemetry=False),
        "tenant": config.tenant,
        "database": config.database,
    }
    client: ClientAPI
    if isinstance(config, HttpChromaDBVectorMemoryConfig):
        headers = dict(config.headers or {})
        client = chromadb.HttpClient(config.host, config.port, config.ssl, headers, **common)
    elif isinstance(config, PersistentChromaDBVectorMemoryConfig):
        client = chromadb.PersistentClient(Path(config.persistence_path).resolve(), **common)
    else:
        client = chromadb.EphemeralClient(**common)
    return client


def _chromadb() -> Any:
    try:
        import chromadb
        import chromadb.config
        import chromadb.errors
    except ImportError as error:
        raise MissingPackageError("chromadb", "memory") from error
    return chromadb


@contextlib.contextmanager
def _explained(action: str, collection: str, place: str) -> Iterator[None]:
    """Makes one of our errors of whatever Chroma, its HTTP client or the file system raise."""
    try:
        yield
    except LongTermMemoryError:
        raise
    except OSError as error:
        raise StoreUnavailableError(place, error.strerror or str(error)) from error
    except Exception as error:
        text = str(error) or type(error).__name__
        module = type(error).__module__.partition(".")[0]
        if module.startswith("http") or "Could not connect" in text:
            raise StoreUnavailableError(place, text) from error
        if "where" in text and action in ("look", "delete"):
            raise FilterError(text) from error
        raise StoreError(action, collection, text) from error
