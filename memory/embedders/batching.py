"""Embedding in batches: texts from callers at the same time run through the model together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from callboard.memory.batches import Batches

from .base import Embedder, EmbeddingModel, Vectors

LARGEST_BATCH: Final = 256  # texts in one call of the embedder, if more than one caller waits


class BatchingEmbedder:
    """An embedder that gives another one, as one batch, the texts that came while its last batch ran.

    Args:
        embedder: Makes the vectors.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._batches = Batches[list[str], Vectors](self._embed, len, LARGEST_BATCH)

    async def load(self) -> EmbeddingModel:
        """See Embedder."""
        return await self._embedder.load()

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """See Embedder. An error is raised in every call whose texts were in the batch."""
        return await self._batches.add(list(texts))

    async def _embed(self, batch: list[list[str]]) -> list[Vectors]:
        vectors = await self._embedder.embed([text for texts in batch for text in texts])
        parts: list[Vectors] = []
        start = 0
        for texts in batch:
            parts.append(vectors[start : start + len(texts)])
            start += len(texts)
        return parts
