"""Measures long-term memory: scripts/bench memory, or python -m scripts.benchmarks.memory.

Queries are timed from the vector to the contents, so the figures do not depend on the embedding model; the model's own
speed is measured beside it. Absolute figures move with the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from callboard.memory import (
    ChromaDBVectorMemory,
    EmbeddingModel,
    MemoryContent,
    MemoryMimeType,
    PersistentChromaDBVectorMemoryConfig,
)
from callboard.memory.embedders.default import default_embedder, quick_embedder

if TYPE_CHECKING:
    from callboard.memory.embedders.base import Embedder, Vectors

DIMENSION = 384
QUERIES = 500
BATCH = 500


class RandomEmbedder:
    """Vectors of nothing, at no cost: what is measured is the store."""

    def __init__(self) -> None:
        import numpy as np

        self._random = np.random.default_rng(1)

    async def load(self) -> EmbeddingModel:
        return EmbeddingModel("random", DIMENSION)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        vectors = self._random.normal(size=(len(texts), DIMENSION)).astype(np.float32)
        scaled: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return scaled


async def times_of(call: Callable[[int], Awaitable[object]], count: int) -> list[float]:
    """Milliseconds of each call, one after the other."""
    times = []
    for number in range(count):
        began = time.perf_counter()
        await call(number)
        times.append((time.perf_counter() - began) * 1e3)
    return sorted(times)


def line(what: str, times: list[float]) -> str:
    """A row: median and 99th percentile."""
    return f"{what:<44}{statistics.median(times):8.2f} ms{times[int(len(times) * 0.99)]:8.2f} ms"


def content(number: int) -> MemoryContent:
    """A memory of some 100 characters; one in ten has the group 0."""
    text = f"memory number {number}: " + "words that were said once " * 3
    return MemoryContent(content=text, mime_type=MemoryMimeType.TEXT, metadata={"group": number % 10})


async def measure_store(documents: int) -> list[str]:
    """Adding and querying, without a model."""
    with tempfile.TemporaryDirectory(prefix="cbmem") as folder:
        config = PersistentChromaDBVectorMemoryConfig(persistence_path=folder, k=5)
        memory = ChromaDBVectorMemory(config, RandomEmbedder())
        began = time.perf_counter()
        for start in range(0, documents, BATCH):
            await memory.add_many([content(number) for number in range(start, min(start + BATCH, documents))])
        rate = documents / (time.perf_counter() - began)
        lines = [f"{f'{documents:,} documents added, {BATCH} at a time':<44}{rate:8,.0f} per second"]
        await times_of(lambda _: memory.query("x"), 20)
        lines.append(line("query, k=5", await times_of(lambda _: memory.query("x"), QUERIES)))
        filtered = await times_of(lambda _: memory.query("x", where={"group": 0}), 100)
        lines.append(line("query, k=5, a filter that one in ten fits", filtered))
        lines.append(line("one document added", await times_of(lambda n: memory.add(content(n)), 100)))
        await memory.close()
    return lines


async def measure_model(name: str, embedder: Embedder) -> list[str]:
    """The model: loading, one text, many texts."""
    began = time.perf_counter()
    await embedder.load()
    loaded = time.perf_counter() - began
    texts = [content(number).text for number in range(256)]
    single = await times_of(lambda n: embedder.embed([texts[n]]), 50)
    began = time.perf_counter()
    await embedder.embed(texts)
    rate = len(texts) / (time.perf_counter() - began)
    return [
        f"{f'{name}: loaded in':<44}{loaded:8.2f} s",
        line(f"{name}: one text", single),
        f"{f'{name}: 256 texts':<44}{rate:8,.0f} per second",
    ]


async def measure(documents: int, models: bool) -> None:
    """Measures and prints."""
    print(f"{platform.machine()}, Python {platform.python_version()}; median and 99th percentile")
    print("\n".join(await measure_store(documents)), flush=True)
    if models:
        print("\n".join(await measure_model("numpy", quick_embedder())), flush=True)
        print("\n".join(await measure_model(type(default_embedder()).__name__, default_embedder())))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the measurements; returns the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/bench memory")
    parser.add_argument("--documents", type=int, default=10_000, metavar="N", help="in the store")
    parser.add_argument("--no-models", action="store_true", help="only the store")
    options = parser.parse_args(arguments)
    asyncio.run(measure(options.documents, not options.no_models))
    return 0


if __name__ == "__main__":
    sys.exit(main())
