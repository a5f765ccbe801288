"""The one owner of a store of memories: an agent type that holds the store and the embedding model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from memory.batching import BatchingEmbedder
from memory.chroma_configs import ChromaDBVectorMemoryConfig, PersistentChromaDBVectorMemoryConfig
from memory.embedder import Embedder
from memory.vector_memory import ChromaDBVectorMemory

from .context import MessageContext
from .handlers import event, rpc
from .memory_messages import (
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
from .routed import RoutedAgent

if TYPE_CHECKING:
    from .app import App
    from .declaration import AgentDeclaration

DEFAULT_TYPE = "memory"
DEFAULT_PATH = Path(".callboard/memory")
LOCK_PATIENCE = 30.0  # seconds that a service waits for the one it replaces to let go of the folder


class MemoryService(RoutedAgent):
    """Remembers and finds for other agents; its key is whose memory it is, such as "writer/default".

    What comes for one key is carried out in the order in which it was sent. Every change can be carried out twice
    without harm: records have ids.

    Args:
        config: Where the store is.
        embedder: Shared by all agents of this type in the process.
    """

    def __init__(self, config: ChromaDBVectorMemoryConfig, embedder: Embedder) -> None:
        super().__init__("remembers and finds for other agents")
        self._config = config
        self._embedder = embedder
        self._opened: ChromaDBVectorMemory | None = None

    @event
    async def on_changes(self, message: MemoryChanges, ctx: MessageContext) -> None:
        """What agents changed in their handlers."""
        await self._apply(message.changes)

    @rpc
    async def on_changes_now(self, message: MemoryChanges, ctx: MessageContext) -> MemoryIds:
        """What is changed outside of handlers; answers with the ids that were added."""
        return MemoryIds(ids=await self._apply(message.changes))

    @rpc
    async def on_query(self, message: MemoryQuery, ctx: MessageContext) -> MemoryFound:
        """A query."""
        found = await self._memory().query(
            message.text, k=message.k, score_threshold=message.score_threshold, where=message.where
        )
        return MemoryFound(results=found.results)

    @rpc
    async def on_ids(self, message: MemoryIdsQuery, ctx: MessageContext) -> MemoryIds:
        """Which records there are."""
        return MemoryIds(ids=await self._memory().ids(message.where))

    @rpc
    async def on_stats(self, message: MemoryStatsQuery, ctx: MessageContext) -> MemoryStatsList:
        """How it stands."""
        memory = self._memory()
        stats = await memory.all_stats() if message.everything else [await memory.stats()]
        return MemoryStatsList(collections=stats)

    async def close(self) -> None:
        """Lets go of the store."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

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

    def _memory(self) -> ChromaDBVectorMemory:
        if self._opened is None:
            # Made here and not with the agent: only now it has a key.
            config = replace(self._config, agent=self.id.key)
            self._opened = ChromaDBVectorMemory(config, self._embedder)
        return self._opened


def memory_service(
    app: App,
    path: str | Path | None = None,
    *,
    config: ChromaDBVectorMemoryConfig | None = None,
    embedder: Embedder | None = None,
    type: str = DEFAULT_TYPE,
) -> AgentDeclaration:
    """Give an app a memory: declare the agent type that owns the store.

    It runs in one process, unless `config` names a Chroma server. Agents reach it with `MemoryServiceClient`.

    Args:
        app: The app.
        path: Folder of the store; None: .callboard/memory.
        config: Where the store is and what applies to all memories, instead of `path`; its `agent` and
            `collection_name` are chosen for each agent that uses it.
        embedder: Makes the vectors; None: the default model, loaded when it is first needed.
        type: The agent type.

    Returns:
        The declaration.

    Raises:
        DuplicateAgentTypeError: The app has that type already (a ValueError).
        MemorySettingError: Both `path` and `config` are given (a ValueError).
    """
    from memory.errors import MemorySettingError

    if config is not None and path is not None:
        raise MemorySettingError("path", repr(str(path)), "left out where config says where the store is")
    register_memory_errors()
    settings = config or PersistentChromaDBVectorMemoryConfig(
        persistence_path=path or DEFAULT_PATH, lock_patience=LOCK_PATIENCE
    )
    settings = replace(settings, collection_name=None, namespace=_namespace(settings, app))
    shared: list[Embedder] = []

    def make() -> MemoryService:
        if not shared:
            shared.append(BatchingEmbedder(embedder or _default_embedder()))
        return MemoryService(settings, shared[0])

    topics = [f"{type}:{TOPIC}"]
    return app.register(type, make, expected_class=MemoryService, subscriptions=topics)


def _namespace(config: ChromaDBVectorMemoryConfig, app: App) -> str:
    return config.namespace if config.namespace != ChromaDBVectorMemoryConfig.namespace else app.namespace


def _default_embedder() -> Embedder:
    from memory.embeddings import default_embedder

    return default_embedder()


def _joined(changes: Sequence[Change]) -> Iterator[Change]:
    """Neighbouring adds as one, so that they are embedded and written together."""
    waiting: Add | None = None
    for change in changes:
        if isinstance(change, Add) and waiting is not None and waiting.ttl == change.ttl:
            waiting = Add(contents=[*waiting.contents, *change.contents], ttl=waiting.ttl)
            continue
        if waiting is not None:
            yield waiting
        waiting = change if isinstance(change, Add) else None
        if waiting is None:
            yield change
    if waiting is not None:
        yield waiting
