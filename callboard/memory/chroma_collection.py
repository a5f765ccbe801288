"""One collection of Chroma, for use in threads: its client, the lock of its folder, and records with their parts."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from callboard.foundation import MissingPackageError

from .chroma_config import (
    ChromaDBVectorMemoryConfig,
    HttpChromaDBVectorMemoryConfig,
    InMemoryChromaDBVectorMemoryConfig,
    PersistentChromaDBVectorMemoryConfig,
    collection_of,
)
from .chroma_index import drop_index, drop_unreadable, in_batches, lost_of
from .embedders import EmbeddingModel, Vectors
from .errors import (
    LongTermMemoryError,
    MemoryFailedError,
    MemoryUnusableError,
    MemoryValueError,
    StoreUnavailableError,
)
from .stores import EXPIRES, PART, PART_OF, Filter, MemoryStats, Record, is_part

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

logger = logging.getLogger("callboard.memory")


# Clients of Chroma


def address_of(config: ChromaDBVectorMemoryConfig) -> str:
    """Where a store is, for errors."""
    if isinstance(config, HttpChromaDBVectorMemoryConfig):
        return f"{'https' if config.ssl else 'http'}://{config.host}:{config.port}"
    if isinstance(config, PersistentChromaDBVectorMemoryConfig):
        return str(config.persistence_path)
    return "this process"


def new_client(config: ChromaDBVectorMemoryConfig, number: int) -> ClientAPI:
    """A client.

    Args:
        config: Of the store.
        number: How often its folder was replaced. Chroma keeps one system for each name of a folder, that of the deleted
            one too, as long as any memory uses it; so a folder that took its place needs a name of its own.
    """
    chromadb = chromadb_module()
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
        client = chromadb.PersistentClient(
            f"{Path(config.persistence_path).resolve()}{'/.' * number}", **common
        )
    else:
        client = chromadb.EphemeralClient(**common)
    return client


def close_connections(client: ClientAPI) -> None:
    """Close the connections to a server: Chroma's own `close` leaves them open (chromadb 1.5), and it has two sessions."""
    for owner in (client, getattr(client, "_admin_client", None)):
        session = getattr(getattr(owner, "_server", None), "_session", None)
        if session is not None:
            session.close()


FILTERS: Final = 'Write {"key": value} or {"key": {"$gt": 3}}; $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $and and $or exist'


def chromadb_module() -> Any:
    """The library; imported when it is first needed, which takes a second."""
    try:
        import chromadb
        import chromadb.config
        import chromadb.errors
    except ModuleNotFoundError:
        raise MissingPackageError("chromadb", "memory") from None
    return chromadb


@contextlib.contextmanager
def explained(action: str, collection: str, place: str) -> Iterator[None]:
    """Raise errors of Chroma, its HTTP client and the file system as ours."""
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
            raise MemoryValueError("the filter", "can't be used", f"{text}. {FILTERS}") from error
        raise MemoryFailedError(f"the store could not {action} in {collection}: {text}") from error


# A lock for the folder of a store

FILE: Final = "callboard.lock"
LOOK_EVERY: Final = 0.05  # seconds between two attempts at a lock that another process holds


class _Held:
    """A lock of this process, and how many of its stores use it.

    Attributes:
        descriptor: of the lock file.
        number: how often the folder was deleted or replaced before while this process had it open.
        users: stores that use it.
        done: what was done once since it was locked.
    """

    def __init__(self, descriptor: int, number: int) -> None:
        self.descriptor = descriptor
        self.number = number
        self.users = 0
        self.done: set[object] = set()

    def is_in(self, folder: Path) -> bool:
        """Whether the folder still has this very file."""
        try:
            return os.path.samestat((folder / FILE).stat(), os.fstat(self.descriptor))
        except FileNotFoundError:
            return False


_held: dict[Path, _Held] = {}
# Memories open and close in threads. Without this, one that closes could give the lock back between another's finding it
# in `_held` and counting itself among its users; and two that both find nothing would lock twice, the second in vain.
_guard = threading.Lock()


class StoreLock:
    """The right to use a folder, shared by all stores in this process.

    On systems without `flock` (Windows) there is no guard.

    Args:
        folder: Of the store; it is made if it does not exist.
        patience: Seconds to wait for a process that has it, which may be about to end.

    Raises:
        MemoryFailedError: another process keeps it.
        OSError: the folder can't be made or written.
    """

    def __init__(self, folder: Path, patience: float = 0.0) -> None:
        self._folder = folder.resolve()
        deadline = time.monotonic() + patience
        while (held := self._take()) is None:
            if time.monotonic() >= deadline:
                raise MemoryFailedError(
                    f"{_holder(self._folder / FILE)} has the memory in {self._folder} open, and two processes on one "
                    "path lose vectors: reach it through a memory service or a Chroma server, or stop that process"
                )
            time.sleep(LOOK_EVERY)
        self._mine: _Held | None = held

    @property
    def number(self) -> int:
        """How often the folder was deleted or replaced before while this process had it open."""
        return 0 if self._mine is None else self._mine.number

    def is_there(self) -> bool:
        """Whether the folder is still the one that was locked; one that was deleted or replaced is not."""
        return self._mine is not None and self._mine.is_in(self._folder)

    def is_first(self, what: object) -> bool:
        """Whether something is to be done now that is done once for the folder, as long as this process has it."""
        with _guard:
            if self._mine is None or what in self._mine.done:
                return False
            self._mine.done.add(what)
            return True

    def is_alone(self) -> bool:
        """Whether no other store of this process uses the folder."""
        with _guard:
            return self._mine is not None and self._mine.users == 1

    def release(self) -> None:
        """Give the right back; the last user in this process lets other processes in. Safe to repeat."""
        with _guard:
            held, self._mine = self._mine, None
            if held is None:
                return
            held.users -= 1
            if not held.users:
                if _held.get(self._folder) is held:
                    del _held[self._folder]
                os.close(held.descriptor)

    def _take(self) -> _Held | None:
        with _guard:
            held = _held.get(self._folder)
            number = 0 if held is None else held.number
            if held is not None and not held.is_in(self._folder):
                logger.error(
                    "the memory in %s was deleted or replaced while it was open: what it held is gone from there, "
                    "and what is remembered from now on goes to what is there now",
                    self._folder,
                )
                held, number = None, number + 1
            if held is None:
                descriptor = _locked(self._folder)
                if descriptor is None:
                    return None
                held = _held[self._folder] = _Held(descriptor, number)
            held.users += 1
            return held


def _locked(folder: Path) -> int | None:
    """A descriptor of the lock file that holds the lock; None when another process has it."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / FILE, os.O_RDWR | os.O_CREAT, 0o600)
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
    os.truncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())
    return descriptor


def _holder(file: Path) -> str:
    try:
        pid = file.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        pid = ""
    return f"process {pid}" if pid.isdecimal() else "another process"


# Searching

ChromaHandle: TypeAlias = Any
"""A collection of chromadb, which only this file imports."""

LARGEST_LOOK: Final = 500  # ids in one condition
MOST_LOOKED_AT: Final = 1_000  # records and parts that one search looks at


class Found(NamedTuple):
    """A record near a vector. `distance` is Chroma's."""

    id: str
    text: str
    metadata: dict[str, Any] | None
    distance: float


def nearest_records(
    handle: ChromaHandle, vectors: Vectors, k: int, conditions: dict[str, Any] | None
) -> list[Found]:
    """The records nearest to any of some vectors, whole and each once, as near as the nearest of their parts."""
    wanted = k
    while True:
        near = _near(handle, vectors, wanted, conditions)
        best: dict[str, Found] = {}
        for one in sorted(near, key=lambda one: one.distance):
            best.setdefault(_record_id(one), one)
        # Several parts of one record took the places of others.
        if len(best) >= k or len(near) < wanted or wanted >= MOST_LOOKED_AT:
            return _whole(handle, dict(list(best.items())[:k]))
        wanted = min(MOST_LOOKED_AT, wanted * 4)


def parts_of_records(handle: ChromaHandle, ids: Sequence[str]) -> list[str]:
    """The ids of the parts that records have, those of the records themselves not among them."""
    found: list[str] = []
    for start in range(0, len(ids), LARGEST_LOOK):
        some: list[Any] = list(ids[start : start + LARGEST_LOOK])
        found += handle.get(where={PART_OF: {"$in": some}}, include=[])["ids"]
    return found


def count_parts(handle: ChromaHandle) -> int:
    """How many parts there are."""
    return len(handle.get(where={PART: {"$gte": 2}}, include=[])["ids"])


def _near(
    handle: ChromaHandle, vectors: Vectors, k: int, conditions: dict[str, Any] | None
) -> Sequence[Found]:
    found: Any = handle.query(
        query_embeddings=vectors,
        n_results=k,
        where=conditions,
        include=["documents", "metadatas", "distances"],
    )
    names = ("ids", "documents", "metadatas", "distances")
    return [
        Found(*row)
        for columns in zip(*(found[name] for name in names), strict=True)
        for row in zip(*columns, strict=True)
    ]


def _record_id(one: Found) -> str:
    return str((one.metadata or {}).get(PART_OF, one.id))


def _whole(handle: ChromaHandle, best: dict[str, Found]) -> list[Found]:
    """The records of what was found; one that was deleted meanwhile is left out."""
    cut = [name for name, one in best.items() if one.id != name]
    if not cut:
        return list(best.values())
    got: Any = handle.get(ids=cut, include=["documents", "metadatas"])
    rows: Iterable[Any] = zip(got["ids"], got["documents"], got["metadatas"], strict=True)
    records = {name: Found(name, text, metadata, best[name].distance) for name, text, metadata in rows}
    whole = [one if one.id == name else records.get(name) for name, one in best.items()]
    return [one for one in whole if one is not None]


# The collection

T = TypeVar("T")

MODEL, DIMENSION = "callboard.model", "callboard.dimension"
NAMESPACE, AGENT = "callboard.namespace", "callboard.agent"
# Marks a collection of a namespace of its own. One without it was made when a service named collections after its app's
# namespace, whichever was in force.
OWN = "callboard.own"
INDEX: Final = {
    # With Chroma's own 16, a few of some thousand texts that are alike are found by no search at all.
    "max_neighbors": 32,
    # Looked at for each vector that is added; with Chroma's 100 a few could not be found again.
    "ef_construction": 200,
}
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
        # What is lost is looked for while others write: without this, a memory that was deleted between our reading and
        # our writing it again would be back.
        self._writing = threading.RLock()
        self.former: str | None = None  # see ChromaDBVectorMemory.take_over_from

    def upsert(self, records: Sequence[Record], vectors: Vectors, model: EmbeddingModel) -> None:
        """Add records, or replace those of the same ids and their parts.

        Args:
            records: Their ids differ; parts come with their record.
            vectors: One row for each.
            model: The model that made the vectors.

        Raises:
            MemoryUnusableError: the collection holds vectors of another model.
        """

        def write() -> None:
            self._check_room()
            handle = self._made(model)
            size = self._opened().get_max_batch_size()
            for start in range(0, len(records), size):
                _write(handle, records[start : start + size], vectors[start : start + size])
            # Only now: parts that a record had before and has no more would be found for what it does not say any longer.
            written = {record.id for record in records}
            parts = parts_of_records(handle, [name for name in written if not is_part(name)])
            _delete(handle, [name for name in parts if name not in written])

        with self._writing:
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

        with self._writing:
            self._do_if_made("delete", remove, None)

    def forget_expired(self, now: int) -> None:
        """Delete the records that expired before `now`, Unix ms."""
        self.delete((), {EXPIRES: {"$lte": now}})

    def drop(self) -> None:
        """Delete the collection, so that the next record may come from another model."""

        def remove(_: Collection) -> None:
            self._opened().delete_collection(self.name)
            self._handle = None

        with self._writing:
            self._do_if_made("clear", remove, None)

    def is_first_opened(self) -> bool:
        """Open the store; whether it is a folder that has this collection, which this process did not look through yet."""
        is_there = self._do("look", lambda: self._existing() is not None)
        return is_there and self._lock is not None and self._lock.is_first(("index", self.name))

    def lost(self) -> list[str]:
        """The ids of the records and parts that no search finds."""
        failure = chromadb_module().errors.InternalError
        nothing: list[str] = []

        def look(some: Sequence[str]) -> list[str]:
            return self._do_if_made("look", lambda handle: lost_of(handle, some, failure), nothing)

        names = self._do_if_made("look", lambda handle: _ids(handle, None), nothing)
        return [name for some in in_batches(names) for name in look(some)]

    def records(self, ids: Sequence[str]) -> list[Record]:
        """Records and parts by id, as they are written; those that are not there are left out."""
        return self._do_if_made("look", lambda handle: _records(handle, ids), [])

    def write_again(self, records: Sequence[Record], vectors: Vectors, model: EmbeddingModel) -> None:
        """Write records as they are, for the index; those that were changed or deleted meanwhile are left alone."""

        def write(handle: Collection) -> None:
            self._check_room()
            self._check(handle, model)
            there = {one.id: one for one in _records(handle, [record.id for record in records])}
            rows = [row for row, record in enumerate(records) if there.get(record.id) == record]
            if rows:
                _upsert(handle, [records[row] for row in rows], vectors[rows])

        with self._writing:
            self._do_if_made("write", write, None)

    def drop_index(self) -> bool:
        """Let the next call begin a new index; False: others in this process have the folder open, and nothing is done."""
        config = self._config
        with self._writing, self._guard:
            if not isinstance(config, PersistentChromaDBVectorMemoryConfig) or self._lock is None:
                return False
            handle = self._existing()
            if handle is None or not self._lock.is_alone():
                return False
            self._let_go()
            drop_index(Path(config.persistence_path), str(handle.id))
            return True

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

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, or is about to be."""
        return self._is_closed

    def begin_close(self) -> None:
        """Let calls that come from now on fail, except for `close`."""
        if not self._is_private:  # which is emptied when it closes
            self._is_closed = True

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
                raise MemoryFailedError(f"the memory {self.name} is closed: make another one")
            if self._client is None:
                self._client = self._new_client()
            return self._client

    def _new_client(self) -> ClientAPI:
        if isinstance(self._config, PersistentChromaDBVectorMemoryConfig):
            path = Path(self._config.persistence_path)
            self._lock = StoreLock(path, self._config.lock_patience)
            if self._lock.is_first("files"):
                drop_unreadable(path)
        try:
            with _clients:
                client = new_client(self._config, 0 if self._lock is None else self._lock.number)
                namespace = self._config.namespace
                if self.former and self._lock and self._lock.is_first((self.former, namespace)):
                    take_over(client, self.former, namespace)
                return client
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
            index: Any = {"space": config.distance_metric, **INDEX}
            marks = {
                MODEL: model.name,
                DIMENSION: model.dimension,
                NAMESPACE: config.namespace,
                AGENT: config.agent,
                OWN: True,
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
                reason = (
                    f"its disk has {free >> 20} MiB left and nothing is written below {config.min_free >> 20} MiB "
                    "(min_free): make room on it"
                )
                raise StoreUnavailableError(str(config.persistence_path), reason, "can't be written")

    def _check(self, handle: Collection, model: EmbeddingModel) -> None:
        metadata = handle.metadata or {}
        if MODEL not in metadata or DIMENSION not in metadata:
            raise self._mismatch("a model that it does not name", model)
        stored = EmbeddingModel(str(metadata[MODEL]), int(str(metadata[DIMENSION])))
        if not stored.makes_vectors_of(model):
            raise self._mismatch(str(stored), model)

    def _mismatch(self, stored: str, used: EmbeddingModel) -> MemoryUnusableError:
        verdict = f"was made with {stored} and this process uses {used}, whose vectors can't be compared"
        advice = "use that model, another collection, or clear this one"
        return MemoryUnusableError(f"the collection {self.name}", verdict, advice)


def take_over(client: ClientAPI, former: str, namespace: str) -> None:
    """Let collections named after a namespace that none has for itself belong to another, or to that one itself."""
    found = client.list_collections()
    names = {one.name for one in found}
    taken = 0
    for one in found:
        marks = dict(one.metadata or {})
        name = collection_of(namespace, str(marks.get(AGENT)))
        if marks.get(NAMESPACE) != former or OWN in marks or (name != one.name and name in names):
            continue
        one.modify(name=name, metadata={**marks, NAMESPACE: namespace, OWN: True})
        taken += 1
    if taken and namespace != former:
        logger.warning(
            "%d memories of agents that all namespaces shared under the name %s belong to the namespace %s from now on",
            taken,
            former,
            namespace,
        )


def score_of(metric: str, distance: float) -> float:
    """The score for a distance of Chroma's; see ChromaDBVectorMemory."""
    if metric == "l2":
        return 1.0 / (1.0 + distance)
    return 1.0 - distance / 2.0 if metric == "cosine" else 1.0 - distance


def _ids(handle: Collection, where: Filter | None) -> list[str]:
    return list(handle.get(where=_conditions(where), include=[])["ids"])


def _write(handle: Collection, records: Sequence[Record], vectors: Vectors) -> None:
    """Write records, except for those that are there already.

    A message that is handled once more adds its records once more. In Chroma's index that would replace them, which may cost
    others their place in it; see chroma_index.py.
    """
    there = {one.id: one for one in _records(handle, [record.id for record in records])}
    rows = []
    later: dict[str, Any] = {}
    for row, record in enumerate(records):
        known = there.get(record.id)
        if known is None or known.text != record.text or _lasting(known) != _lasting(record):
            rows.append(row)
        elif known.metadata.get(EXPIRES) != record.metadata.get(EXPIRES):
            later[record.id] = {EXPIRES: record.metadata.get(EXPIRES)}
    if rows:
        _upsert(handle, [records[row] for row in rows], vectors[rows])
    if later:
        handle.update(ids=list(later), metadatas=list(later.values()))


def _lasting(record: Record) -> dict[str, Any]:
    return {key: value for key, value in record.metadata.items() if key != EXPIRES}


def _upsert(handle: Collection, records: Sequence[Record], vectors: Vectors) -> None:
    handle.upsert(
        ids=[record.id for record in records],
        documents=[record.text for record in records],
        metadatas=[record.metadata for record in records],
        embeddings=vectors,
    )


def _records(handle: Collection, ids: Sequence[str]) -> list[Record]:
    got: Any = handle.get(ids=list(ids), include=["documents", "metadatas"])
    rows = zip(got["ids"], got["documents"], got["metadatas"], strict=True)
    return [Record(name, text or "", dict(metadata or {})) for name, text, metadata in rows]


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
