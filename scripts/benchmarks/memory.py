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
from pathlib import Path
from typing import TYPE_CHECKING

from callboard import App, TopicId
from callboard.broker import BrokerSettings
from callboard.memory import (
    ChromaDBVectorMemory,
    EmbeddingModel,
    InMemoryChromaDBVectorMemoryConfig,
    MemoryContent,
    MemoryMimeType,
    PersistentChromaDBVectorMemoryConfig,
)
from callboard.memory.documents import ChunkSettings, chunk
from callboard.memory.embedders import limit_of
from callboard.memory.local_embedders import default_embedder, quick_embedder
from callboard.memory_service import Add, MemoryChanges, MemoryServiceClient, memory_service

if TYPE_CHECKING:
    from callboard.memory.embedders import Embedder, Vectors

DIMENSION = 384
QUERIES = 500
BATCH = 500
PAGES = Path(__file__).parents[2] / "docs"
MOST_PIECES = 150  # of the pages, evenly taken
ENDING = 15  # words at the end of a piece
MOST_WAITED_FOR = 400  # additions


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


async def measure_recall(embedder: Embedder) -> list[str]:
    """How many endings of pieces are found that the model does not read whole, and of the same text in pieces that fit.

    The corpus is our own pages, whose paragraphs are long. Asked for are the last words of every piece of 1,000 characters
    that is longer than the model reads; found is what is among the first five.
    """
    limit = await limit_of(embedder)
    if limit is None:
        return []
    pages = [page.read_text("utf-8") for page in sorted(PAGES.glob("*.md"))]
    long = [piece.text for page in pages for piece in chunk(page, ChunkSettings(size=1_000, overlap=150))]
    long = long[:: max(1, len(long) // MOST_PIECES)]
    asked = [" ".join(text.split()[-ENDING:]) for text in long if not limit.fits(text)]
    short = [
        piece.text for text in long for piece in chunk(text, ChunkSettings.reading(limit, overlap=2 * ENDING))
    ]
    share = f"{len(asked)} of {len(long)} pieces of 1,000 characters are longer than {limit.tokens} tokens"
    rows = (
        ("such pieces, cut off by the model", CutOff(embedder), long),
        ("such pieces, as a memory takes them", embedder, long),
        ("pieces that fit", embedder, short),
    )
    return [share] + [
        f"{f'endings found among 5: {name}':<60}{await recall(made, texts, asked):8.0%}"
        for name, made, texts in rows
    ]


async def recall(embedder: Embedder, texts: Sequence[str], asked: Sequence[str]) -> float:
    """The share of these endings that a query finds among its first five results."""
    memory = ChromaDBVectorMemory(InMemoryChromaDBVectorMemoryConfig(k=5), embedder)
    await memory.add_many([MemoryContent(content=text, mime_type=MemoryMimeType.TEXT) for text in texts])
    found = 0
    for ending in asked:
        results = (await memory.query(ending)).results
        found += any(ending in " ".join(str(one.content).split()) for one in results)
    await memory.close()
    return found / max(1, len(asked))


class CutOff:
    """An embedder that does not say how much it reads, so that the model cuts texts off."""

    def __init__(self, embedder: Embedder) -> None:
        self.load = embedder.load
        self.embed = embedder.embed


async def measure_waiting(embedder: Embedder, additions: int) -> list[str]:
    """How long a query takes while so many additions of one memory wait."""
    with tempfile.TemporaryDirectory(prefix="cbmem") as folder:
        app = App("waiting", settings=BrokerSettings(request_timeout=600.0, drain_grace=0.0))
        memory_service(app, folder, embedder=embedder)
        async with app.running("memory://") as runtime:
            memory = MemoryServiceClient(runtime, "shared")
            await memory.add(content(0))
            await memory.query("words")
            for number in range(additions):
                changes = MemoryChanges(changes=[Add(contents=[content(number)])])
                await runtime.publish_message(changes, TopicId("memory:memory", "shared"))
            times = await times_of(lambda _: memory.query("words"), 20)
            lines = [line(f"query while {additions:,} additions wait", times)]
            if additions <= MOST_WAITED_FOR:
                in_order = MemoryServiceClient(runtime, "shared", in_order=True)
                times = await times_of(lambda _: in_order.query("words"), 1)
                lines.append(line("the same, in_order", times))
    return lines


async def measure(documents: int, models: bool) -> None:
    """Measures and prints."""
    print(f"{platform.machine()}, Python {platform.python_version()}; median and 99th percentile")
    print("\n".join(await measure_store(documents)), flush=True)
    if models:
        print("\n".join(await measure_model("numpy", quick_embedder())), flush=True)
        print("\n".join(await measure_recall(quick_embedder())), flush=True)
        for additions in (400, 1_600):
            print("\n".join(await measure_waiting(quick_embedder(), additions)), flush=True)
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
