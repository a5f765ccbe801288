"""Embedding in batches: texts from callers at the same time run through the model together, and queries go first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from callboard.memory.batches import Batches

from .base import Embedder, EmbeddingModel, Vectors
from .limit import TextLimit, limit_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

LARGEST_BATCH: Final = 32  # texts in one call of the embedder: nothing that comes meanwhile waits for more
PART: Final = 8  # texts of one caller in a batch; with more, its next ones stand behind those of the others


class BatchingEmbedder:
    """An embedder that gives another one, as one batch, the texts that came while its last batch ran.

    Callers take turns, so that one with many texts does not keep the others waiting; and the texts of `queries` go
    beside these batches, not behind them.

    Args:
        embedder: Makes the vectors.

    Attributes:
        queries: The same embedder for whoever can't wait.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._batches = Batches[list[str], Vectors](self._embed, len, LARGEST_BATCH)
        self.queries: Embedder = _Lane(self, Batches[list[str], Vectors](self._embed, len, LARGEST_BATCH).add)

    async def load(self) -> EmbeddingModel:
        """See Embedder."""
        return await self._embedder.load()

    async def limit(self) -> TextLimit | None:
        """That of the other one."""
        return await limit_of(self._embedder)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """See Embedder. An error is raised in every call whose texts were in the batch."""
        return await _in_parts(self._batches.add, texts)

    async def _embed(self, batch: list[list[str]]) -> list[Vectors]:
        vectors = await self._embedder.embed([text for texts in batch for text in texts])
        parts: list[Vectors] = []
        start = 0
        for texts in batch:
            parts.append(vectors[start : start + len(texts)])
            start += len(texts)
        return parts


class _Lane:
    """The embedder of a BatchingEmbedder, with batches of its own."""

    def __init__(self, whole: BatchingEmbedder, add: Callable[[list[str]], Awaitable[Vectors]]) -> None:
        self.load = whole.load
        self.limit = whole.limit
        self._add = add

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """See Embedder."""
        return await _in_parts(self._add, texts)


async def _in_parts(add: Callable[[list[str]], Awaitable[Vectors]], texts: Sequence[str]) -> Vectors:
    import numpy as np

    if len(texts) <= PART:
        return await add(list(texts))
    parts = [await add(list(texts[start : start + PART])) for start in range(0, len(texts), PART)]
    joined: Vectors = np.concatenate(parts)
    return joined
