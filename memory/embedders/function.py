"""An embedder made of an async function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from .base import EmbeddingModel, Vectors, as_vectors


class FunctionEmbedder:
    """An embedder that calls an async function, such as the client of a service.

    Args:
        function: Takes a list of texts, returns a row of numbers for each.
        model: Its name, stored with what is remembered.
        dimension: Numbers in a row.
        batch_size: Most texts in one call.
    """

    def __init__(
        self,
        function: Callable[[list[str]], Awaitable[Any]],
        *,
        model: str,
        dimension: int,
        batch_size: int = 256,
    ) -> None:
        self._function = function
        self._model = EmbeddingModel(model, dimension)
        self._batch_size = batch_size

    async def load(self) -> EmbeddingModel:
        """The model that was named."""
        return self._model

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """See Embedder. Errors of the function are raised as they are."""
        rows: list[Any] = []
        for start in range(0, len(texts), self._batch_size):
            rows += await self._function(list(texts[start : start + self._batch_size]))
        return as_vectors(rows, len(texts), self._model)
