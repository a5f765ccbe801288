"""What turns texts into vectors, seen from those who need vectors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from .errors import EmbeddingError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """Which vectors an embedder makes. Vectors of different models can't be compared.

    Attributes:
        name: the same for the same weights, wherever they run. What stands behind an @ tells weights apart; what
            stands before it is for people.
        dimension: numbers in a vector.
    """

    name: str
    dimension: int

    def makes_vectors_of(self, other: EmbeddingModel) -> bool:
        """Whether vectors of both can be compared."""
        mine, its = (model.name.rpartition("@")[2] for model in (self, other))
        return mine == its and self.dimension == other.dimension

    def __str__(self) -> str:
        return f"{self.name} ({self.dimension} numbers)"


class Embedder(Protocol):
    """Turns texts into vectors of length 1, so that close meanings have a scalar product near 1."""

    async def load(self) -> EmbeddingModel:
        """Make it ready, if it is not yet, and say what it makes."""
        ...

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts.

        Args:
            texts: Any number; a text longer than the model takes is cut.

        Returns:
            float32, shape (len(texts), dimension), each row of length 1.

        Raises:
            EmbeddingError: the model failed.
        """
        ...


def as_vectors(rows: Any, count: int, model: EmbeddingModel) -> Vectors:
    """Rows of numbers as vectors of length 1.

    Args:
        rows: What a model returned.
        count: How many there have to be.
        model: What they are said to be.

    Raises:
        EmbeddingError: there are more or fewer, they have another dimension, or one is not finite.
    """
    import numpy as np

    vectors = np.asarray(rows, dtype=np.float32)
    if vectors.shape != (count, model.dimension):
        wanted = (count, model.dimension)
        raise EmbeddingError(model.name, f"it returned the shape {vectors.shape} instead of {wanted}")
    if not np.isfinite(vectors).all():
        raise EmbeddingError(model.name, "it returned numbers that are not finite")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Vectors = vectors / np.maximum(lengths, 1e-12)
    return scaled


class FunctionEmbedder:
    """An embedder that is an async function, such as a call of a service.

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
        """What it makes."""
        return self._model

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """See Embedder. What the function raises is raised as it is."""
        rows: list[Any] = []
        for start in range(0, len(texts), self._batch_size):
            rows += await self._function(list(texts[start : start + self._batch_size]))
        if not texts:
            import numpy as np

            return np.zeros((0, self._model.dimension), dtype=np.float32)
        return as_vectors(rows, len(texts), self._model)
