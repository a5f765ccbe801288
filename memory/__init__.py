"""What was said and what is remembered: LLM messages, model contexts and long-term memory.

This package knows neither `broker` nor `actors`. Everything is loaded when it is first used: numpy, chromadb and the
embedding models are optional, and slow to import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base import Memory, MemoryContent, MemoryMimeType, MemoryQueryResult, UpdateContextResult
    from .chroma_configs import (
        ChromaDBVectorMemoryConfig,
        HttpChromaDBVectorMemoryConfig,
        InMemoryChromaDBVectorMemoryConfig,
        PersistentChromaDBVectorMemoryConfig,
    )
    from .embedder import Embedder, EmbeddingModel, FunctionEmbedder
    from .embeddings import SentenceTransformerEmbedder, default_embedder
    from .errors import LongTermMemoryError
    from .hashing import HashingEmbedder
    from .list_memory import ListMemory
    from .numpy_embedder import NumpyEmbedder
    from .store import MemoryStats, MemoryStore
    from .vector_memory import ChromaDBVectorMemory

__all__ = [
    "ChromaDBVectorMemory",
    "ChromaDBVectorMemoryConfig",
    "Embedder",
    "EmbeddingModel",
    "FunctionEmbedder",
    "HashingEmbedder",
    "HttpChromaDBVectorMemoryConfig",
    "InMemoryChromaDBVectorMemoryConfig",
    "ListMemory",
    "LongTermMemoryError",
    "Memory",
    "MemoryContent",
    "MemoryMimeType",
    "MemoryQueryResult",
    "MemoryStats",
    "MemoryStore",
    "NumpyEmbedder",
    "PersistentChromaDBVectorMemoryConfig",
    "SentenceTransformerEmbedder",
    "UpdateContextResult",
    "default_embedder",
]

_HOME = {
    "ChromaDBVectorMemory": ".vector_memory",
    "ChromaDBVectorMemoryConfig": ".chroma_configs",
    "Embedder": ".embedder",
    "EmbeddingModel": ".embedder",
    "FunctionEmbedder": ".embedder",
    "HashingEmbedder": ".hashing",
    "HttpChromaDBVectorMemoryConfig": ".chroma_configs",
    "InMemoryChromaDBVectorMemoryConfig": ".chroma_configs",
    "ListMemory": ".list_memory",
    "LongTermMemoryError": ".errors",
    "Memory": ".base",
    "MemoryContent": ".base",
    "MemoryMimeType": ".base",
    "MemoryQueryResult": ".base",
    "MemoryStats": ".store",
    "MemoryStore": ".store",
    "NumpyEmbedder": ".numpy_embedder",
    "PersistentChromaDBVectorMemoryConfig": ".chroma_configs",
    "SentenceTransformerEmbedder": ".embeddings",
    "UpdateContextResult": ".base",
    "default_embedder": ".embeddings",
}


if not TYPE_CHECKING:
    # Hidden from type checkers, which would take any misspelt name for one of these.

    def __getattr__(name: str) -> object:
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home, __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
