"""An embedder made of an async function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from .base import EmbeddingModel, Vectors, as_vectors
from .limit import TextLimit


class FunctionEmbedder:
    """An embedder that calls an async function, such as the client of a service.

    Args:
        function: Takes a list of texts, returns a row of numbers for each.
        model: Its name, stored with what is remembered.
        dimension: Numbers in a row.
        batch_size: Most texts in one call.
        limit: The longest text that it reads whole; None: any.
    """

    def __init__(
        self,
        function: Callable[[list[str]], Awaitable[Any]],
        *,
        model: str,
        dimension: int,
        batch_size: int = 256,
        limit: TextLimit | None = None,
    ) -> None:
        self._function = function
        self._model = EmbeddingModel(model, dimension)
        self._batch_size = batch_size
        self._limit = limit

    async def load(self) -> EmbeddingModel:
        """The model that was named."""
        return self._model

    async def limit(self) -> TextLimit | None:
        """The longest text that it reads whole; None: any."""
        return self._limit

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """See Embedder. Errors of the function are raised as they are."""
        rows: list[Any] = []
        for start in range(0, len(texts), self._batch_size):
            rows += await self._function(list(texts[start : start + self._batch_size]))
        return as_vectors(rows, len(texts), self._model)
