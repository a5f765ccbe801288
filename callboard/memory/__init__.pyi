from .base import (
    Memory as Memory,
    MemoryContent as MemoryContent,
    MemoryMimeType as MemoryMimeType,
    MemoryQueryResult as MemoryQueryResult,
    UpdateContextResult as UpdateContextResult,
)
from .embedders.base import Embedder as Embedder, EmbeddingModel as EmbeddingModel
from .embedders.default import (
    default_embedder as default_embedder,
    quick_embedder as quick_embedder,
)
from .embedders.function import FunctionEmbedder as FunctionEmbedder
from .embedders.hashing import HashingEmbedder as HashingEmbedder
from .embedders.limit import TextLimit as TextLimit
from .embedders.numpy_bert import NumpyEmbedder as NumpyEmbedder
from .embedders.sentence_transformer import SentenceTransformerEmbedder as SentenceTransformerEmbedder
from .errors import LongTermMemoryError as LongTermMemoryError
from .stores.base import MemoryStats as MemoryStats, MemoryStore as MemoryStore, Search as Search
from .stores.chroma.config import (
    ChromaDBVectorMemoryConfig as ChromaDBVectorMemoryConfig,
    HttpChromaDBVectorMemoryConfig as HttpChromaDBVectorMemoryConfig,
    InMemoryChromaDBVectorMemoryConfig as InMemoryChromaDBVectorMemoryConfig,
    PersistentChromaDBVectorMemoryConfig as PersistentChromaDBVectorMemoryConfig,
)
from .stores.chroma.memory import ChromaDBVectorMemory as ChromaDBVectorMemory
from .stores.list_memory import ListMemory as ListMemory

__all__: list[str]
