"""The memory that a `callboard memory` command works on, and opening it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .exits import bad_use
from .sessions import publisher

if TYPE_CHECKING:
    from callboard.app import App
    from callboard.memory.embedders.base import Embedder
    from callboard.memory.embedders.limit import TextLimit
    from callboard.memory.stores.chroma.memory import ChromaDBVectorMemory
    from callboard.memory_service.client import MemoryServiceClient

HASHING = "hashing"
"""Given instead of a model's folder: vectors that know words only, for tests."""


@dataclass(frozen=True, slots=True)
class MemoryLocation:
    """The memory that a command is about.

    Attributes:
        target: `module:app` of a running memory service; None: the store itself.
        path: Folder of the store.
        chroma: URL of a Chroma server.
        url: Redis server of the app.
        namespace: Of the memories; None: the app's, or `main`.
        agent: The agent that remembers.
        model: Embedding model.
    """

    target: str | None
    path: Path | None
    chroma: str | None
    url: str | None
    namespace: str | None
    agent: str
    model: str | None = None

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.target, self.path, self.chroma)) > 1:
            bad_use("give one of --app, --path and --chroma: each says where the memory is")
        if self.target is not None and self.model is not None:
            bad_use("--model goes without --app: a memory service has its own model")

    @contextlib.asynccontextmanager
    async def opened(
        self, *, makes: bool = False, quick: bool = True
    ) -> AsyncIterator[ChromaDBVectorMemory | MemoryServiceClient]:
        """The memory, until the end of the block.

        Args:
            makes: The folder is made if it does not exist.
            quick: Only few texts are embedded, so a model that starts fast is better than one that runs fast.
        """
        if self.target is not None:
            async with self._through_service() as client:
                yield client
            return
        from callboard.memory.stores.chroma.memory import ChromaDBVectorMemory

        self._check(makes)
        memory = ChromaDBVectorMemory(self._config(), LazyEmbedder(self.model, quick))
        try:
            yield memory
        finally:
            await memory.close()

    async def limit(self) -> TextLimit | None:
        """The longest text that the embedding model reads whole; None: any. The model itself is not loaded."""
        from callboard.memory.embedders.limit import limit_of

        if self.target is None:
            return await limit_of(embedder_of(self.model, quick=True))
        from callboard.memory_service.service import embedder_of_service
        from callboard.process.loading import load_app

        app = load_app(self.target)
        embedder = embedder_of_service(app[service_of(app)])
        return None if embedder is None else await limit_of(embedder)

    @contextlib.asynccontextmanager
    async def _through_service(self) -> AsyncIterator[MemoryServiceClient]:
        from callboard.memory_service.client import MemoryServiceClient
        from callboard.process.loading import load_app

        app = load_app(self.target or "")
        service = service_of(app)
        async with publisher(app, self.url, self.namespace) as runtime:
            yield MemoryServiceClient(runtime, self.agent, service=service)

    def _check(self, makes: bool) -> None:
        if self.chroma is None and not makes and not self._folder.is_dir():
            bad_use(f"there is no memory in {self._folder}: `callboard memory import` makes one")

    @property
    def _folder(self) -> Path:
        from callboard.memory_service.service import DEFAULT_PATH

        return self.path or DEFAULT_PATH

    def _config(self) -> Any:
        from callboard.memory.stores.chroma.config import (
            HttpChromaDBVectorMemoryConfig,
            PersistentChromaDBVectorMemoryConfig,
        )

        namespace = self.namespace or "main"
        if self.chroma is not None:
            return HttpChromaDBVectorMemoryConfig.from_url(self.chroma, namespace=namespace, agent=self.agent)
        return PersistentChromaDBVectorMemoryConfig(
            persistence_path=self._folder, namespace=namespace, agent=self.agent
        )


class LazyEmbedder:
    """Chooses the model when it is needed: most commands need none, and it may not be installed."""

    def __init__(self, model: str | None, quick: bool) -> None:
        self._model = model
        self._quick = quick
        self._chosen: Embedder | None = None

    async def load(self) -> Any:
        return await self._embedder().load()

    async def embed(self, texts: Any) -> Any:
        return await self._embedder().embed(texts)

    async def limit(self) -> TextLimit | None:
        from callboard.memory.embedders.limit import limit_of

        return await limit_of(self._embedder())

    def _embedder(self) -> Embedder:
        if self._chosen is None:
            self._chosen = embedder_of(self._model, quick=self._quick)
        return self._chosen


def embedder_of(model: str | None, *, quick: bool) -> Embedder:
    """The embedder for `--model`."""
    from callboard.memory.embedders.default import default_embedder, quick_embedder
    from callboard.memory.embedders.hashing import HashingEmbedder

    if model == HASHING:
        return HashingEmbedder()
    return quick_embedder(model) if quick else default_embedder(model)


def service_of(app: App) -> str:
    """The agent type of an app's memory service."""
    from callboard.memory_service.service import MemoryService

    types = [
        one.type
        for one in app.declarations
        if issubclass(one.agent_class, MemoryService) and one.beside is None
    ]
    if not types:
        bad_use(f"the app {app.name} has no memory: give it one with memory_service(app), or use --path")
    return types[0]
