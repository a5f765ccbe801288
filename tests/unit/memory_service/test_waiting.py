"""Who waits for whom in a memory service: queries go first, and changes wait for a store that can't be reached."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from callboard import AgentId, App, TopicId
from callboard.broker import BrokerSettings, RetryPolicy
from callboard.broker.redis.operations.deadletters import list_letters
from callboard.errors import DeclarationError
from callboard.memory import EmbeddingModel, HashingEmbedder, MemoryContent, MemoryMimeType
from callboard.memory.chroma import ChromaDBVectorMemory
from callboard.memory.errors import StoreUnavailableError
from callboard.memory_service import (
    Add,
    MemoryChanges,
    MemoryServiceClient,
    embedder_of_service,
    memory_service,
)
from callboard.runtime.runtime import RedisAgentRuntime
from tests.helpers.eventually import eventually

QUICK = BrokerSettings(retry_base=0.01, retry_cap=0.02)


def text(content: str, **metadata: Any) -> MemoryContent:
    return MemoryContent(content=content, mime_type=MemoryMimeType.TEXT, metadata=metadata)


class Gated:
    """An embedder that makes the vectors of `slow` texts only when the test says so."""

    def __init__(self) -> None:
        self._inner = HashingEmbedder(32)
        self.gate = asyncio.Event()
        self.waiting = 0

    async def load(self) -> EmbeddingModel:
        return await self._inner.load()

    async def embed(self, texts: Sequence[str]) -> Any:
        if any("slow" in one for one in texts):
            self.waiting += 1
            await self.gate.wait()
        return await self._inner.embed(texts)


async def publish(runtime: RedisAgentRuntime, memory: str, *texts: str) -> None:
    """Additions as a handler's commit sends them."""
    for one in texts:
        changes = MemoryChanges(changes=[Add(contents=[text(one, id=one)])])
        await runtime.publish_message(changes, TopicId("memory:memory", memory))


async def test_a_query_does_not_wait_behind_changes(tmp_path: Path) -> None:
    app, gated = App("first"), Gated()
    memory_service(app, tmp_path, embedder=gated)
    async with app.running("memory://") as runtime:
        memory = MemoryServiceClient(runtime, "shared", k=1)
        await memory.add(text("stored before", id="before"))
        await publish(runtime, "shared", *(f"slow {number}" for number in range(20)))
        await eventually(lambda: gated.waiting)

        (found,) = (await memory.query("stored before")).results
        assert found.content == "stored before", "what was acknowledged is seen"
        assert await memory.ids() == ["before"]
        assert (await memory.stats()).count == 1

        in_order = MemoryServiceClient(runtime, "shared", in_order=True)
        asked = asyncio.create_task(in_order.query("slow 19", k=30))
        other = MemoryServiceClient(runtime, "other", in_order=True)
        assert (await other.query("of")).results == [], "another memory waits for nothing"
        assert not asked.done()
        gated.gate.set()
        assert len((await asked).results) == 21, "all that was sent before it"


class Unhurried(HashingEmbedder):
    """Takes its time, and counts."""

    def __init__(self) -> None:
        super().__init__(32)
        self.made = 0

    def _embed(self, texts: list[str]) -> Any:
        time.sleep(0.01)
        self.made += len(texts)
        return super()._embed(texts)


async def test_a_query_does_not_wait_for_more_changes_than_a_process_holds(tmp_path: Path) -> None:
    app, embedder = App("full"), Unhurried()
    memory_service(app, tmp_path, embedder=embedder)
    settings = BrokerSettings(concurrency=40)
    async with app.running("memory://", settings=settings, types=["memory"]) as runtime:
        memory = MemoryServiceClient(runtime, "shared", k=1)
        await publish(runtime, "shared", *(f"fact {number}" for number in range(200)))
        await memory.query("anything")
        assert embedder.made < 150, "most of the changes still wait"
        assert len(await MemoryServiceClient(runtime, "shared", in_order=True).ids()) == 200


def test_a_service_has_the_settings_of_an_agent_type(tmp_path: Path) -> None:
    retry, embedder = RetryPolicy(outage=3_600.0), HashingEmbedder()
    declaration = memory_service(App("patient"), tmp_path, embedder=embedder, retry=retry, max_attempts=5)
    assert (declaration.settings.retry, declaration.settings.max_attempts) == (retry, 5)
    assert embedder_of_service(declaration) is not None
    assert embedder_of_service(memory_service(App("own"), store=lambda _: ChromaDBVectorMemory())) is None
    with pytest.raises(DeclarationError, match="There is no agent setting 'retries'"):
        memory_service(App("typo"), tmp_path, retries=5)  # type: ignore[call-arg]


async def test_changes_wait_for_a_store_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_away = True
    tried = 0
    add = ChromaDBVectorMemory._add

    async def away(self: Any, contents: Any, ttl: Any) -> list[str]:
        nonlocal tried
        tried += 1
        if is_away:
            raise StoreUnavailableError("http://nowhere", "refused")
        return await add(self, contents, ttl)

    monkeypatch.setattr(ChromaDBVectorMemory, "_add", away)
    app = App("outage", settings=QUICK)
    memory_service(app, tmp_path, embedder=HashingEmbedder(32))
    async with app.running("memory://") as runtime:
        await publish(runtime, "shared", *(f"fact {number}" for number in range(10)))
        await eventually(lambda: tried > 10)
        with pytest.raises(StoreUnavailableError):
            await runtime.send_message(
                MemoryChanges(changes=[Add(contents=[text("now")])]), AgentId("memory", "other")
            )
        is_away = False
        in_order = MemoryServiceClient(runtime, "shared", in_order=True)
        assert len(await in_order.ids()) == 10
        assert await list_letters(runtime.transport, "memory") == ()
