"""What embedders share whose model runs in this process."""

from __future__ import annotations

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from .embedder import EmbeddingModel, as_vectors

if TYPE_CHECKING:
    from .embedder import Vectors

T = TypeVar("T")

WEIGHTS: Final = ("model.safetensors", "pytorch_model.bin")
SAMPLES, SAMPLE_BYTES = 64, 16_384  # what of a file of weights tells it from others


class LocalEmbedder(ABC):
    """Runs a model in a thread of its own, which loads it when it is first needed.

    Subclasses say how to load and to run it; both happen in that thread, one call at a time.
    """

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._loaded: EmbeddingModel | None = None

    async def load(self) -> EmbeddingModel:
        """Load the model, once, and say what it makes.

        Raises:
            ModelNotFoundError: it is not on this machine.
            ModelUnsupportedError: it can't be run here.
            MissingPackageError: what runs it is not installed.
        """
        if self._loaded is None:
            return await self._in_thread(self._ensure)
        return self._loaded

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """See Embedder.

        Raises:
            EmbeddingError: the model returned what can't be its vectors.
        """
        return await self._in_thread(self._run, list(texts))

    def close(self) -> None:
        """End the thread. The next use begins another one; the model stays in memory."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown(wait=False)

    @abstractmethod
    def _load(self) -> EmbeddingModel:
        """Loads the model; may take seconds."""

    @abstractmethod
    def _embed(self, texts: list[str]) -> Any:
        """Rows of numbers for at least one text."""

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "callboard-embedder")
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    def _ensure(self) -> EmbeddingModel:
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    def _run(self, texts: list[str]) -> Vectors:
        model = self._ensure()
        if texts:
            return as_vectors(self._embed(texts), len(texts), model)
        import numpy as np

        return np.zeros((0, model.dimension), dtype=np.float32)


def name_of_weights(folder: Path) -> str:
    """A name for the weights in a folder, the same wherever the folder is and whatever runs them.

    The folder's own name says little (`model`), so a digest of samples all over the file is part of it.
    """
    for weights in (folder / name for name in WEIGHTS):
        if weights.is_file():
            return f"{_title(folder)}@{_digest(weights)}"
    return _title(folder)


def _title(folder: Path) -> str:
    """Hub names such as all-MiniLM-L6-v2 are often only in the path."""
    return folder.resolve().name if folder.name != "model" else folder.resolve().parent.name


def _digest(file: Path) -> str:
    size = file.stat().st_size
    digest = hashlib.blake2b(str(size).encode(), digest_size=6)
    with file.open("rb") as weights:
        for number in range(SAMPLES):
            weights.seek(size * number // SAMPLES)
            digest.update(weights.read(SAMPLE_BYTES))
    return digest.hexdigest()
