"""The interface of embedders: texts in, vectors out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from callboard.memory.errors import EmbeddingError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]
else:
    Vectors = Any  # numpy is optional, and slow to import


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """The identity of a model. Vectors of different models can't be compared.

    Attributes:
        name: the same for the same weights, wherever they run. The part behind an @ tells weights apart; the part
            before it is for people.
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
    """A maker of vectors of length 1, such that texts close in meaning have a scalar product near 1."""

    async def load(self) -> EmbeddingModel:
        """Make the model ready, if it is not yet, and say which it is."""
        ...

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts.

        Args:
            texts: Any number. A text longer than the model reads may be cut: an embedder that does so says how much
                it reads with a method `limit`, see limit.py, and stores give it parts of such a text.

        Returns:
            float32, shape (len(texts), dimension), each row of length 1.

        Raises:
            EmbeddingError: the model failed.
        """
        ...


def as_vectors(rows: Any, count: int, model: EmbeddingModel) -> Vectors:
    """Rows of numbers as vectors of length 1.

    Args:
        rows: As a model returned them.
        count: How many there have to be.
        model: The model that returned them.

    Raises:
        EmbeddingError: there are more or fewer, they have another dimension, or one is not finite.
    """
    import numpy as np

    if not count:
        return np.zeros((0, model.dimension), dtype=np.float32)
    vectors = np.asarray(rows, dtype=np.float32)
    if vectors.shape != (count, model.dimension):
        wanted = (count, model.dimension)
        raise EmbeddingError(model.name, f"it returned the shape {vectors.shape} instead of {wanted}")
    if not np.isfinite(vectors).all():
        raise EmbeddingError(model.name, "it returned numbers that are not finite")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Vectors = vectors / np.maximum(lengths, 1e-12)
    return scaled
