"""Vectors without a model, for tests: words and their parts, hashed."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from .base import EmbeddingModel, Vectors
from .local import LocalEmbedder

WORD = re.compile(r"\w+")
GRAM = 3  # characters in a part of a word
PART_WEIGHT = 0.3  # of a part, against 1 of a whole word


class HashingEmbedder(LocalEmbedder):
    """An embedder that gives similar vectors to texts that share words; their meaning plays no part.

    The same everywhere and fast, so it is right for tests and for nothing else.

    Args:
        dimension: Numbers in a vector.
    """

    def __init__(self, dimension: int = 256) -> None:
        super().__init__()
        self._dimension = dimension

    def _load(self) -> EmbeddingModel:
        return EmbeddingModel(f"hashing-{self._dimension}", self._dimension)

    def _embed(self, texts: list[str]) -> Vectors:
        import numpy as np

        vectors = np.zeros((len(texts), self._dimension), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            self._add(row, text)
        return vectors

    def _add(self, row: Any, text: str) -> None:
        # An empty text has a direction too: a vector of zeros is close to nothing, not even to itself.
        words = WORD.findall(text.casefold()) or [text or "\0"]
        for word in words:
            self._count(row, word, 1.0)
            padded = f"<{word}>"
            for start in range(len(padded) - GRAM + 1):
                self._count(row, f"#{padded[start : start + GRAM]}", PART_WEIGHT)

    def _count(self, row: Any, feature: str, weight: float) -> None:
        digest = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest(), "big")
        sign = 1.0 if digest & 1 else -1.0
        row[(digest >> 1) % self._dimension] += sign * weight
