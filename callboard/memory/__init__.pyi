from .base import (
    Memory as Memory,
    MemoryContent as MemoryContent,
    MemoryMimeType as MemoryMimeType,
    MemoryQueryResult as MemoryQueryResult,
    UpdateContextResult as UpdateContextResult,
)
from .chroma import ChromaDBVectorMemory as ChromaDBVectorMemory
from .chroma_config import (
    ChromaDBVectorMemoryConfig as ChromaDBVectorMemoryConfig,
    HttpChromaDBVectorMemoryConfig as HttpChromaDBVectorMemoryConfig,
    InMemoryChromaDBVectorMemoryConfig as InMemoryChromaDBVectorMemoryConfig,
    PersistentChromaDBVectorMemoryConfig as PersistentChromaDBVectorMemoryConfig,
)
from .embedders import (
    Embedder as Embedder,
    EmbeddingModel as EmbeddingModel,
    FunctionEmbedder as FunctionEmbedder,
    TextLimit as TextLimit,
)
from .errors import LongTermMemoryError as LongTermMemoryError
from .local_embedders import (
    HashingEmbedder as HashingEmbedder,
    NumpyEmbedder as NumpyEmbedder,
    SentenceTransformerEmbedder as SentenceTransformerEmbedder,
    default_embedder as default_embedder,
    quick_embedder as quick_embedder,
)
from .stores import (
    ListMemory as ListMemory,
    MemoryCheck as MemoryCheck,
    MemoryStats as MemoryStats,
    MemoryStore as MemoryStore,
    Search as Search,
)

__all__: list[str]
