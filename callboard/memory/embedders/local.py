"""The base of embedders whose model runs in this process."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

from .base import EmbeddingModel, Vectors, as_vectors

T = TypeVar("T")


class LocalEmbedder(ABC):
    """An embedder that runs a model in threads of its own, the first of which loads the model when it is first needed.

    Subclasses say how to load and how to run it. The model is loaded once. Unless a subclass says that it may run in
    several threads, there is one, so that two callers never run it at the same time.

    Args:
        threads: In which it may run at once.
    """

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._loading = Lock()
        self._thread: ThreadPoolExecutor | None = None
        self._loaded: EmbeddingModel | None = None

    async def load(self) -> EmbeddingModel:
        """Load the model, once, and say which it is.

        Raises:
            EmbeddingModelNotFoundError: it is not on this machine.
            ModelUnsupportedError: it can't be run here.
            MissingPackageError: the package that runs it is not installed.
        """
        return await self._in_thread(self._ensure) if self._loaded is None else self._loaded

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """See Embedder.

        Raises:
            EmbeddingError: the model returned rows that can't be its vectors.
        """
        return await self._in_thread(self._run, list(texts))

    def close(self) -> None:
        """End the threads. The next use begins others; the model stays in memory."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown(wait=False)

    @abstractmethod
    def _load(self) -> EmbeddingModel:
        """Load the model; may take seconds."""

    @abstractmethod
    def _embed(self, texts: list[str]) -> Any:
        """Rows of numbers for at least one text."""

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(self._threads, "callboard-embedder")
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    def _ensure(self) -> EmbeddingModel:
        # Of two callers who both found nothing loaded, the second finds the first one's model here.
        with self._loading:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _run(self, texts: list[str]) -> Vectors:
        model = self._ensure()
        return as_vectors(self._embed(texts) if texts else (), len(texts), model)
