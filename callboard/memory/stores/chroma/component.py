"""A ChromaDBVectorMemory as plain data, with the fields that AutoGen writes, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from callboard.foundation.component import ComponentConfigError, NotDumpableError, harmless
from callboard.memory.embedders.base import Embedder
from callboard.memory.embedders.sentence_transformer import SentenceTransformerEmbedder

from .config import (
    ChromaDBVectorMemoryConfig,
    DistanceMetric,
    HttpChromaDBVectorMemoryConfig,
    InMemoryChromaDBVectorMemoryConfig,
    PersistentChromaDBVectorMemoryConfig,
)

NAME: Final = "callboard.memory.ChromaDBVectorMemory"
ClientType: TypeAlias = Literal["persistent", "http", "memory"]
CONFIGS: Final[Mapping[ClientType, type[ChromaDBVectorMemoryConfig]]] = {
    "persistent": PersistentChromaDBVectorMemoryConfig,
    "http": HttpChromaDBVectorMemoryConfig,
    "memory": InMemoryChromaDBVectorMemoryConfig,
}


class EmbeddingFunctionModel(BaseModel):
    """An embedder as plain data.

    Attributes:
        function_type: "default" is `default_embedder()`; what it is otherwise, as AutoGen calls it.
        model_name: its model.
    """

    model_config = ConfigDict(protected_namespaces=())

    function_type: str = "default"
    model_name: str | None = None


class ChromaDBVectorMemoryModel(BaseModel):
    """A ChromaDBVectorMemory as plain data; its fields are those of the configurations, which explain them.

    Headers with a secret are in no dump.

    Attributes:
        client_type: which of the configurations it is.
        allow_reset: AutoGen's; it is read and means nothing.
        embedding_function_config: the embedder.
    """

    client_type: ClientType = "persistent"
    collection_name: str | None = None
    namespace: str | None = None
    agent: str | None = None
    distance_metric: DistanceMetric | None = None
    k: int | None = None
    score_threshold: float | None = None
    ttl: float | None = None
    tenant: str | None = None
    database: str | None = None
    persistence_path: str | None = None
    lock_patience: float | None = None
    min_free: int | None = None
    host: str | None = None
    port: int | None = None
    ssl: bool | None = None
    headers: dict[str, str] | None = None
    allow_reset: bool | None = None
    embedding_function_config: EmbeddingFunctionModel = EmbeddingFunctionModel()


def model_of(
    config: ChromaDBVectorMemoryConfig, embedder: Embedder | None, query_embedder: Embedder | None
) -> ChromaDBVectorMemoryModel:
    """A memory as plain data.

    Raises:
        NotDumpableError: its configuration or embedder can't be written down (a TypeError).
    """
    kind: ClientType | None = next((name for name, made in CONFIGS.items() if type(config) is made), None)
    if kind is None:
        raise NotDumpableError(
            NAME, f"{type(config).__name__} is none of the configurations that have a name"
        )
    values = asdict(config)
    if "persistence_path" in values:
        values["persistence_path"] = str(values["persistence_path"])
    if "headers" in values:
        values["headers"] = harmless(values["headers"])
    embedding = _model_of_embedder(embedder, query_embedder)
    return ChromaDBVectorMemoryModel(client_type=kind, embedding_function_config=embedding, **values)


def config_of(model: ChromaDBVectorMemoryModel) -> ChromaDBVectorMemoryConfig:
    """The configuration of a memory."""
    made = CONFIGS[model.client_type]
    given = {field.name: getattr(model, field.name) for field in fields(made)}
    return made(**{name: value for name, value in given.items() if value is not None})


def embedder_of(model: ChromaDBVectorMemoryModel) -> Embedder | None:
    """The embedder of a memory; None: that of the process.

    Raises:
        ComponentConfigError: it is of a kind that is not made here (a ValueError).
    """
    wanted = model.embedding_function_config
    if wanted.function_type == "default":
        return None
    if wanted.function_type == "sentence_transformer":
        return SentenceTransformerEmbedder(wanted.model_name)
    reason = (
        f"embedding_function_config: {wanted.function_type!r} is neither 'default' nor 'sentence_transformer'; "
        "for any other embedder make the memory in the program"
    )
    raise ComponentConfigError(NAME, [reason])


def _model_of_embedder(embedder: Embedder | None, query_embedder: Embedder | None) -> EmbeddingFunctionModel:
    if query_embedder is not None:
        raise NotDumpableError(NAME, "query_embedder can't be written down")
    if embedder is None:
        return EmbeddingFunctionModel()
    if not isinstance(embedder, SentenceTransformerEmbedder):
        kind = type(embedder).__name__
        raise NotDumpableError(
            NAME, f"its {kind} can't be written down: leave out embedder, or make it yourself"
        )
    name = None if embedder.source is None else str(embedder.source)
    return EmbeddingFunctionModel(function_type="sentence_transformer", model_name=name)
