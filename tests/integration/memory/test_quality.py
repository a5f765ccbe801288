"""The default model: it finds what is meant, and gives the same vectors with torch and without."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from callboard.memory import (
    ChromaDBVectorMemory,
    InMemoryChromaDBVectorMemoryConfig,
    MemoryContent,
    MemoryMimeType,
    NumpyEmbedder,
    PersistentChromaDBVectorMemoryConfig,
    SentenceTransformerEmbedder,
    default_embedder,
)
from callboard.memory.errors import MemoryUnusableError
from callboard.memory.local_embedders import (
    DEFAULT_PACKAGE,
    default_model_folder,
    has_sentence_transformers,
    quick_embedder,
)

from .corpus import PASSAGES, QUESTIONS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec(DEFAULT_PACKAGE) is None,
        reason="the model is not installed: callboard[embeddings] brings it",
    ),
]
needs_torch = pytest.mark.skipif(
    not has_sentence_transformers(),
    reason="sentence-transformers is not installed: callboard[embeddings] brings it",
)

ODD_TEXTS = [
    "",
    " ",
    "a",
    "Größe übertreibt – naïve café",
    "日本語のテキスト",
    "x" * 400,
    "word " * 900,
    "def f(x):\n\treturn x",
]


@pytest.fixture
async def memory() -> AsyncIterator[ChromaDBVectorMemory]:
    made = ChromaDBVectorMemory(InMemoryChromaDBVectorMemoryConfig(k=5))
    await made.add_many(
        [
            MemoryContent(content=text, mime_type=MemoryMimeType.TEXT, metadata={"id": name})
            for name, text in PASSAGES.items()
        ]
    )
    yield made
    await made.close()


async def test_recall_at_5_of_the_default_embedder_is_at_least_nine_in_ten(
    memory: ChromaDBVectorMemory,
) -> None:
    assert (len(PASSAGES), len(QUESTIONS)) == (70, 50)
    missed = []
    for question, name in QUESTIONS.items():
        found = [(one.metadata or {})["id"] for one in (await memory.query(question)).results]
        if name not in found:
            missed.append((question, name, found))

    assert len(missed) <= 5, missed


@needs_torch
async def test_numpy_and_sentence_transformers_agree() -> None:
    texts = [*list(PASSAGES.values())[::4], *list(QUESTIONS)[::4], *ODD_TEXTS]
    one, other = NumpyEmbedder(default_model_folder()), default_embedder()
    assert isinstance(other, SentenceTransformerEmbedder)

    similarities = (await one.embed(texts) * await other.embed(texts)).sum(axis=1)

    assert similarities.min() >= 0.99999
    assert (await one.load()).makes_vectors_of(await other.load())
    assert np.abs(similarities - 1).max() < 1e-4
    one.close()


@needs_torch
async def test_a_store_made_with_one_opens_with_the_other(tmp_path: Path) -> None:
    config = PersistentChromaDBVectorMemoryConfig(persistence_path=tmp_path, k=1)
    first = ChromaDBVectorMemory(config, quick_embedder())
    await first.add(MemoryContent(content=PASSAGES["owl"], mime_type=MemoryMimeType.TEXT))
    await first.close()
    second = ChromaDBVectorMemory(config)

    (found,) = (await second.query("silent flight")).results

    assert found.content == PASSAGES["owl"]
    await second.close()


async def test_the_model_is_loaded_once_for_all_memories_of_a_process() -> None:
    assert default_embedder() is default_embedder()
    assert isinstance(quick_embedder(), NumpyEmbedder)


@needs_torch
async def test_a_missing_model_is_not_looked_for_on_the_network() -> None:
    code = (
        "import asyncio, socket, sys\n"
        "def refuse(*_): raise AssertionError('the network was used')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "from callboard.memory import SentenceTransformerEmbedder\n"
        "from callboard.memory.errors import MemoryUnusableError\n"
        "try:\n"
        "    asyncio.run(SentenceTransformerEmbedder('nobody/no-such-model').load())\n"
        "except MemoryUnusableError as error:\n"
        "    print(error)\n"
    )
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert done.stdout.startswith("the embedding model nobody/no-such-model is not on this machine"), (
        done.stderr
    )


def test_without_torch_numpy_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.memory.local_embedders.has_sentence_transformers", lambda: False)
    fresh = default_embedder.__wrapped__

    assert isinstance(fresh(), NumpyEmbedder)
    with pytest.raises(MemoryUnusableError):
        fresh("some/name")
