"""Memories belong to the namespace in force, and those of a test to the test."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from callboard import App
from callboard.memory import (
    ChromaDBVectorMemory,
    HashingEmbedder,
    HttpChromaDBVectorMemoryConfig,
    InMemoryChromaDBVectorMemoryConfig,
    MemoryContent,
    MemoryMimeType,
    PersistentChromaDBVectorMemoryConfig,
    chroma_collection as collections,
)
from callboard.memory_service import MemoryServiceClient, Place, memory_service
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.testing import Harness
from tests.helpers.servers import ServerProcess

SECRET = MemoryContent(content="the key is under the mat", mime_type=MemoryMimeType.TEXT)


def desk(folder: Path, **settings: Any) -> App:
    app = App("desk")
    memory_service(app, folder, embedder=HashingEmbedder(), **settings)
    return app


async def remembered(runtime: RedisAgentRuntime) -> list[str]:
    found = await MemoryServiceClient(runtime, "clerk/a").query("key", k=9)
    return [one.text for one in found.results]


async def add(runtime: RedisAgentRuntime) -> None:
    await MemoryServiceClient(runtime, "clerk/a").add(SECRET)


async def test_a_namespace_finds_what_was_stored_in_it_and_nothing_else(tmp_path: Path) -> None:
    app = desk(tmp_path / "store")
    async with app.running("memory://one", namespace="staging") as staging:
        await add(staging)
        async with app.running("memory://two", namespace="production") as production:  # at the same time
            assert await remembered(production) == []

    async with app.running("memory://three", namespace="staging") as staging:
        assert await remembered(staging) == [SECRET.content]
        (stats,) = await MemoryServiceClient(staging, "clerk/a").all_stats()
    assert (stats.namespace, stats.agent, stats.count) == ("staging", "clerk/a", 1)


async def test_the_namespace_of_the_environment_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = desk(tmp_path / "store")
    async with app.running("memory://one") as runtime:
        await add(runtime)
    monkeypatch.setenv("CALLBOARD_NAMESPACE", "production")
    async with app.running("memory://two") as runtime:
        assert await remembered(runtime) == []


@pytest.mark.parametrize("kind", ["folder", "server"])
async def test_memories_of_a_test_leave_with_it(tmp_path: Path, kind: str) -> None:
    nobody = HttpChromaDBVectorMemoryConfig(port=1)
    app = App("desk")
    memory_service(
        app,
        tmp_path / "store" if kind == "folder" else None,
        config=nobody if kind == "server" else None,
        embedder=HashingEmbedder(),
    )
    async with Harness() as harness:
        first = await harness.run(app)
        await add(first)
        await first.close()
        assert await remembered(await harness.run(app)) == [SECRET.content]
        (place,) = (Path(tmp) for tmp in [Place.of(await harness.run(app)).scratch] if tmp)
        assert place.is_dir()

    assert not place.exists()
    assert not (tmp_path / "store").exists()
    async with Harness() as harness:
        assert await remembered(await harness.run(app)) == []


async def test_a_store_in_memory_stays_one_in_a_test() -> None:
    app = App("desk")
    memory_service(app, config=InMemoryChromaDBVectorMemoryConfig(), embedder=HashingEmbedder())
    async with Harness() as harness:
        runtime = await harness.run(app)
        await add(runtime)
        assert await remembered(runtime) == [SECRET.content]


async def test_a_namespace_that_the_configuration_names_is_for_all(tmp_path: Path) -> None:
    config = PersistentChromaDBVectorMemoryConfig(persistence_path=tmp_path / "store", namespace="shared")
    app = App("desk")
    memory_service(app, config=config, embedder=HashingEmbedder())
    async with app.running("memory://one", namespace="staging") as runtime:
        await add(runtime)
    async with app.running("memory://two", namespace="production") as runtime:
        assert await remembered(runtime) == [SECRET.content]


@contextlib.asynccontextmanager
async def as_before(folder: Path) -> AsyncIterator[ChromaDBVectorMemory]:
    """A memory as a service of older versions made it: named after the app, and without a mark."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collections, "OWN", "callboard.other")
        config = PersistentChromaDBVectorMemoryConfig(
            persistence_path=folder, namespace="desk", agent="clerk/a"
        )
        memory = ChromaDBVectorMemory(config, HashingEmbedder())
        try:
            yield memory
        finally:
            await memory.close()


@pytest.mark.parametrize("namespace", ["desk", "production"])
async def test_an_existing_store_is_found_by_the_namespace_that_opens_it_first(
    tmp_path: Path, namespace: str
) -> None:
    app = desk(tmp_path / "store")
    async with as_before(tmp_path / "store") as memory:
        await memory.add(SECRET)

    async with Harness() as harness:  # takes nothing away
        assert await remembered(await harness.run(app)) == []
    async with app.running("memory://passing", namespace="passing") as runtime:
        assert await remembered(runtime) == []
    with ServerProcess() as server:
        for _ in range(2):
            async with app.running(server.url, namespace=namespace) as runtime:
                assert await remembered(runtime) == [SECRET.content]
        async with app.running(server.url, namespace="staging") as runtime:
            assert await remembered(runtime) == []
            await add(runtime)
        async with app.running(server.url, namespace=namespace) as runtime:
            assert await remembered(runtime) == [SECRET.content]
