"""Memories as plain data and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callboard import ComponentModel
from callboard.foundation.component import ComponentConfigError, NotDumpableError
from callboard.memory import (
    ChromaDBVectorMemory,
    ChromaDBVectorMemoryConfig,
    HashingEmbedder,
    HttpChromaDBVectorMemoryConfig,
    InMemoryChromaDBVectorMemoryConfig,
    ListMemory,
    Memory,
    MemoryContent,
    MemoryMimeType,
    PersistentChromaDBVectorMemoryConfig,
    SentenceTransformerEmbedder,
)
from callboard.memory.llm_messages import Image

CONTENTS = [
    MemoryContent(content="likes tea", mime_type=MemoryMimeType.TEXT, metadata={"id": "1"}),
    MemoryContent(content=b"\xff\x00", mime_type=MemoryMimeType.BINARY),
    MemoryContent(content={"a": [1]}, mime_type=MemoryMimeType.JSON),
    MemoryContent(content=Image(url="https://example.org/a.png"), mime_type="image/png"),
]


def again(memory: Memory) -> Memory:
    """What a dump becomes after it was JSON."""
    text = memory.dump_component().model_dump_json()
    return Memory.load_component(ComponentModel.model_validate_json(text), hosts=["chroma.example"])


def chroma(config: ChromaDBVectorMemoryConfig | None = None) -> ChromaDBVectorMemory:
    return ChromaDBVectorMemory(config)


def test_a_list_has_its_contents() -> None:
    memory = ListMemory("facts", CONTENTS)
    loaded = again(memory)
    assert isinstance(loaded, ListMemory)
    assert (loaded.name, loaded.content) == ("facts", CONTENTS)
    assert memory.dump_component().provider == "callboard.memory.ListMemory"
    assert memory.dump_component().component_type == "memory"


def test_a_list_of_autogen_is_read() -> None:
    config = {"name": "n", "memory_contents": [{"content": "a", "mime_type": "text/plain"}]}
    loaded = Memory.load_component({"provider": "autogen_core.memory.ListMemory", "config": config})
    assert isinstance(loaded, ListMemory)
    assert loaded.content == [MemoryContent(content="a", mime_type=MemoryMimeType.TEXT)]


@pytest.mark.parametrize("contents", ["a", [3], [{"content": "a"}]])
def test_contents_that_are_none_are_refused(contents: Any) -> None:
    config = {"memory_contents": contents}
    with pytest.raises(ComponentConfigError, match="memory_contents"):
        Memory.load_component({"provider": "callboard.memory.ListMemory", "config": config})


@pytest.mark.parametrize(
    "config",
    [
        PersistentChromaDBVectorMemoryConfig(
            persistence_path="here", collection_name="facts", k=7, distance_metric="l2", ttl=5.0
        ),
        HttpChromaDBVectorMemoryConfig(host="chroma.example", port=9, ssl=True, score_threshold=0.5),
        InMemoryChromaDBVectorMemoryConfig(namespace="a", agent="writer/default"),
    ],
    ids=lambda config: type(config).__name__,
)
def test_each_configuration_of_chroma_comes_back(config: ChromaDBVectorMemoryConfig) -> None:
    loaded = again(chroma(config))
    assert isinstance(loaded, ChromaDBVectorMemory)
    assert loaded.config == config


def test_headers_with_secrets_stay_out() -> None:
    config = HttpChromaDBVectorMemoryConfig(headers={"X-Chroma-Token": "s3cret", "X-Team": "a"})
    assert chroma(config).dump_component().config["headers"] == {"X-Team": "a"}
    config = HttpChromaDBVectorMemoryConfig(headers={"Authorization": "s3cret"})
    assert "headers" not in chroma(config).dump_component().config


def test_a_chroma_of_autogen_is_read() -> None:
    loaded: Any = Memory.load_component(
        {
            "provider": "autogen_ext.memory.chromadb.ChromaDBVectorMemory",
            "config": {
                "client_type": "persistent",
                "collection_name": "memory_store",
                "distance_metric": "cosine",
                "k": 3,
                "allow_reset": False,
                "tenant": "default_tenant",
                "database": "default_database",
                "persistence_path": "./chroma_db",
                "embedding_function_config": {"function_type": "default"},
            },
        }
    )
    assert loaded.config == PersistentChromaDBVectorMemoryConfig(collection_name="memory_store")


def test_an_embedder_by_its_model() -> None:
    memory = ChromaDBVectorMemory(None, SentenceTransformerEmbedder(Path("model")))
    embedding = memory.dump_component().config["embedding_function_config"]
    assert embedding == {"function_type": "sentence_transformer", "model_name": "model"}
    assert again(memory).dump_component() == memory.dump_component()
    default = again(ChromaDBVectorMemory(None, SentenceTransformerEmbedder())).dump_component()
    assert default.config["embedding_function_config"] == {"function_type": "sentence_transformer"}


def test_embedders_that_have_no_name() -> None:
    with pytest.raises(NotDumpableError, match="its HashingEmbedder can't be written down"):
        ChromaDBVectorMemory(None, HashingEmbedder()).dump_component()
    with pytest.raises(NotDumpableError, match="query_embedder"):
        ChromaDBVectorMemory(query_embedder=HashingEmbedder()).dump_component()
    config = {"embedding_function_config": {"function_type": "openai", "api_key": "s3cret"}}
    with pytest.raises(ComponentConfigError, match="'openai' is neither") as error:
        Memory.load_component({"provider": "callboard.memory.ChromaDBVectorMemory", "config": config})
    assert "s3cret" not in str(error.value)


def test_a_configuration_of_ones_own_is_refused() -> None:
    class Own(PersistentChromaDBVectorMemoryConfig):
        pass

    with pytest.raises(NotDumpableError, match="Own is none of the configurations"):
        chroma(Own()).dump_component()
