"""The memory service: the agent type that owns a store and the embedding model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from callboard.context import MessageContext
from callboard.declaration import AgentOptions, AgentSettings
from callboard.handlers import event, rpc
from callboard.memory.embedders.base import Embedder
from callboard.memory.embedders.batching import BatchingEmbedder
from callboard.memory.embedders.default import default_embedder
from callboard.memory.errors import MemorySettingError
from callboard.memory.stores.base import MemoryStore
from callboard.memory.stores.chroma.config import (
    ChromaDBVectorMemoryConfig,
    PersistentChromaDBVectorMemoryConfig,
)
from callboard.memory.stores.chroma.memory import ChromaDBVectorMemory
from callboard.routed import RoutedAgent

from .messages import (
    QUERIES,
    TOPIC,
    Add,
    Change,
    Delete,
    MemoryChanges,
    MemoryFound,
    MemoryIds,
    MemoryIdsQuery,
    MemoryQuery,
    MemoryStatsList,
    MemoryStatsQuery,
    register_memory_errors,
)
from .shared_stores import SharedStores

if TYPE_CHECKING:
    from callboard.app import App
    from callboard.declaration import AgentDeclaration

DEFAULT_TYPE = "memory"
DEFAULT_PATH = Path(".callboard/memory")
MOST_AT_ONCE = 32  # memories that one process changes at once
LOCK_PATIENCE = 30.0  # seconds that a service waits for the one it replaces to let go of the folder


class MemoryService(RoutedAgent):
    """The agent that remembers and finds for another agent, which its key names, such as "writer/default".

    Changes of one memory are carried out in the order in which they were sent. Every change can be carried out twice
    without harm, because records have ids: a service that dies after it has written, and before its commit, handles the
    message again and writes the same records.

    A memory has a second agent of this class, of the type `<type>.queries`, in the same process. It looks things up while
    the first one works off changes: a query waits neither behind them nor for a place among them.

    Args:
        stores: The stores of this process.
    """

    def __init__(self, stores: SharedStores) -> None:
        super().__init__("remembers and finds for other agents")
        self._stores = stores
        self._opened: MemoryStore | None = None

    @event
    async def on_changes(self, message: MemoryChanges, ctx: MessageContext) -> None:
        """Changes that agents made in their handlers."""
        await self._apply(message.changes)

    @rpc
    async def on_changes_now(self, message: MemoryChanges, ctx: MessageContext) -> MemoryIds:
        """Changes made outside of handlers; the reply has the ids that were added."""
        return MemoryIds(ids=await self._apply(message.changes))

    @rpc
    async def on_query(self, message: MemoryQuery, ctx: MessageContext) -> MemoryFound:
        """The results of a query."""
        found = await self._memory().query(
            message.text, k=message.k, score_threshold=message.score_threshold, where=message.where
        )
        return MemoryFound(results=found.results)

    @rpc
    async def on_ids(self, message: MemoryIdsQuery, ctx: MessageContext) -> MemoryIds:
        """The ids of records."""
        return MemoryIds(ids=await self._memory().ids(message.where))

    @rpc
    async def on_stats(self, message: MemoryStatsQuery, ctx: MessageContext) -> MemoryStatsList:
        """The stats of this collection, or of all."""
        memory = self._memory()
        stats = await memory.all_stats() if message.everything else [await memory.stats()]
        return MemoryStatsList(collections=stats)

    async def close(self) -> None:
        """Let go of the store."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await self._stores.give_back(self.id.key)

    async def _apply(self, changes: Sequence[Change]) -> list[str]:
        added: list[str] = []
        memory = self._memory()
        for change in _joined(changes):
            if isinstance(change, Add):
                added += await memory.add_many(change.contents, ttl=change.ttl)
            elif isinstance(change, Delete):
                await memory.delete(change.ids, where=change.where)
            else:
                await memory.clear()
        return added

    def _memory(self) -> MemoryStore:
        if self._opened is None:
            # Made here and not with the agent, which has its key only now.
            self._opened = self._stores.take(self.id.key)
        return self._opened


class ServiceFactory:
    """Makes the agents of a memory service.

    Attributes:
        embedder: Returns what makes the vectors; None: the service has a store of its own kind.

    Args:
        open_store: Makes the store of a memory.
        embedder: As the attribute.
    """

    def __init__(
        self, open_store: Callable[[str], MemoryStore], embedder: Callable[[], Embedder] | None = None
    ) -> None:
        self.embedder = embedder
        self._stores = SharedStores(open_store)

    def __call__(self) -> MemoryService:
        return MemoryService(self._stores)


def memory_service(
    app: App,
    path: str | Path | None = None,
    *,
    config: ChromaDBVectorMemoryConfig | None = None,
    embedder: Embedder | None = None,
    store: Callable[[str], MemoryStore] | None = None,
    type: str = DEFAULT_TYPE,
    **settings: Unpack[AgentOptions],
) -> AgentDeclaration:
    """Give an app a memory: declare the agent type that owns the store.

    It runs in one process, unless `config` names a Chroma server. Agents reach it with `MemoryServiceClient`.

    Args:
        app: The app.
        path: Folder of the store; None: .callboard/memory.
        config: Where the store is and what applies to all memories, instead of `path`; its `agent` and
            `collection_name` are chosen for each agent that uses it.
        embedder: Makes the vectors; None: the default model, loaded when it is first needed.
        store: Makes the store of an agent such as "writer/default", instead of all of the above; None: Chroma's.
        type: The agent type.
        **settings: The fields of AgentSettings, such as `retry=RetryPolicy(outage=3600.0)`: for how long changes wait
            for a Chroma server that can't be reached.

    Returns:
        The declaration.

    Raises:
        AgentDeclarationError: There is no such setting (a TypeError).
        DuplicateAgentTypeError: The app has that type already (a ValueError).
        MemorySettingError: Two arguments are given that exclude each other (a ValueError).
    """
    if config is not None and path is not None:
        raise MemorySettingError("path", repr(str(path)), "left out where config says where the store is")
    if store is not None and any(given is not None for given in (path, config, embedder)):
        raise MemorySettingError("store", repr(store), "given without path, config and embedder")
    register_memory_errors()
    factory = ServiceFactory(store) if store is not None else _chroma(app, path, config, embedder)
    # Fewer than all places of a process: the others are for queries.
    limits = AgentSettings.of({"concurrency": MOST_AT_ONCE, **settings})
    declaration = app.register(
        type, factory, expected_class=MemoryService, subscriptions=[f"{type}:{TOPIC}"], settings=limits
    )
    app.register(f"{type}{QUERIES}", factory, expected_class=MemoryService, settings=limits, beside=type)
    return declaration


def embedder_of_service(declaration: AgentDeclaration) -> Embedder | None:
    """What makes the vectors of a memory service; None: it is not known."""
    factory = declaration.factory
    return factory.embedder() if isinstance(factory, ServiceFactory) and factory.embedder else None


def _chroma(
    app: App, path: str | Path | None, config: ChromaDBVectorMemoryConfig | None, embedder: Embedder | None
) -> ServiceFactory:
    """Makes agents whose stores are in Chroma."""
    settings = config or PersistentChromaDBVectorMemoryConfig(
        persistence_path=path or DEFAULT_PATH, lock_patience=LOCK_PATIENCE
    )
    settings = replace(settings, collection_name=None, namespace=_namespace(settings, app))

    @cache
    def shared() -> BatchingEmbedder:
        # One for all agents of this type, and made in the process that runs them: the default one may not be there in
        # the process that only declares the service.
        return BatchingEmbedder(embedder or default_embedder())

    def open_chroma(agent: str) -> MemoryStore:
        return ChromaDBVectorMemory(replace(settings, agent=agent), shared(), query_embedder=shared().queries)

    return ServiceFactory(open_chroma, shared)


def _namespace(config: ChromaDBVectorMemoryConfig, app: App) -> str:
    return config.namespace if config.namespace != ChromaDBVectorMemoryConfig.namespace else app.namespace


def _joined(changes: Sequence[Change]) -> list[Change]:
    """Changes in which neighbouring additions are one, so that they are embedded and written together."""
    joined: list[Change] = []
    for change in changes:
        last = joined[-1] if joined else None
        if isinstance(change, Add) and isinstance(last, Add) and last.ttl == change.ttl:
            joined[-1] = Add(contents=[*last.contents, *change.contents], ttl=last.ttl)
        else:
            joined.append(change)
    return joined
