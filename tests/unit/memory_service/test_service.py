"""The memory service and its client: what a handler remembers belongs to its commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from callboard import AgentId, App, MessageContext, RoutedAgent, TopicId, event, rpc
from callboard.errors import DuplicateAgentTypeError
from callboard.memory import (
    HashingEmbedder,
    InMemoryChromaDBVectorMemoryConfig,
    MemoryContent,
    MemoryMimeType,
    MemoryStats,
    MemoryStore,
    PersistentChromaDBVectorMemoryConfig,
    Search,
)
from callboard.memory.contexts import UnboundedChatCompletionContext
from callboard.memory.errors import MemoryValueError
from callboard.memory.llm_messages import UserMessage
from callboard.memory.stores import Filter, Record, content_of, record_of
from callboard.memory_service import (
    MOST_CONTENTS,
    Add,
    Change,
    Clear,
    Delete,
    MemoryChanges,
    MemoryService,
    MemoryServiceClient,
    memory_service,
)
from callboard.runtime.runtime import RedisAgentRuntime


def text(content: str, **metadata: Any) -> MemoryContent:
    return MemoryContent(content=content, mime_type=MemoryMimeType.TEXT, metadata=metadata or None)


class Noted(RoutedAgent):
    """Notes what it hears, and fails as often as it is told."""

    failures = 0

    def __init__(self) -> None:
        super().__init__("notes")
        self.memory = MemoryServiceClient(self)

    @event
    async def on_text(self, message: str, ctx: MessageContext) -> None:
        for word in message.split():
            await self.memory.add(text(word))
        if ctx.attempt <= self.failures:
            raise OSError("not yet")

    @event
    async def on_number(self, message: int, ctx: MessageContext) -> None:
        await self.memory.add(text("first", id="a"))
        await self.memory.add(text("before"))
        await self.memory.clear()
        await self.memory.add_many([text("second", id="b"), text("third", id="c")])
        await self.memory.delete(["b"])

    @rpc
    async def on_question(self, message: str, ctx: MessageContext) -> list[Any]:
        found = await self.memory.query(message, k=10)
        return sorted(str(one.content) for one in found.results)


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    monkeypatch.setattr(Noted, "failures", 0)
    made = App("notes")
    memory_service(made, tmp_path / "store", embedder=HashingEmbedder())
    made.agent("noted", topics=["texts"], max_attempts=3)(Noted)
    return made


@pytest.fixture
async def runtime(app: App) -> AsyncIterator[RedisAgentRuntime]:
    async with app.running("memory://") as running:
        yield running


async def noted(runtime: RedisAgentRuntime, key: str = "a") -> list[str]:
    found: list[str] = await runtime.send_message("words", AgentId("noted", key))
    return found


async def test_additions_of_a_handler_are_stored_after_its_commit(runtime: RedisAgentRuntime) -> None:
    await runtime.publish_message("red green blue", TopicId("texts", "a"))
    await runtime.publish_message("black", TopicId("texts", "b"))
    await asyncio.sleep(0)
    await _handled(runtime, 4)

    assert await noted(runtime) == ["blue", "green", "red"]
    assert await noted(runtime, "b") == ["black"]


async def test_additions_of_a_failed_attempt_are_dropped(
    runtime: RedisAgentRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Noted, "failures", 2)
    await runtime.publish_message("red green", TopicId("texts", "a"))
    await _handled(runtime, 2)

    assert await noted(runtime) == ["green", "red"]


async def test_a_handler_that_never_succeeds_stores_nothing(
    runtime: RedisAgentRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Noted, "failures", 3)
    await runtime.publish_message("red green", TopicId("texts", "a"))
    await _failed(runtime, 1)

    assert await noted(runtime) == []


async def test_changes_keep_their_order(runtime: RedisAgentRuntime) -> None:
    await runtime.publish_message(1, TopicId("texts", "a"))
    await _handled(runtime, 2)

    assert await noted(runtime) == ["third"]


async def test_the_same_changes_twice_do_no_harm(runtime: RedisAgentRuntime) -> None:
    changes = MemoryChanges(changes=[Add(contents=[text("a", id="1")]), Add(contents=[text("b", id="2")])])
    for number in range(2):
        await runtime.publish_message(changes, TopicId("memory:memory", "x"), message_id=f"m{number}")
    await _handled(runtime, 2)

    assert sorted(await MemoryServiceClient(runtime, "x").ids()) == ["1", "2"]


async def test_outside_of_handlers_a_change_is_done_when_the_call_returns(runtime: RedisAgentRuntime) -> None:
    memory = MemoryServiceClient(runtime, "shared", k=1)

    ids = await memory.add_many([text("red apples"), text("green pears")])

    assert sorted(await memory.ids()) == sorted(ids)
    (found,) = (await memory.query("pears")).results
    assert (found.content, (found.metadata or {})["id"]) == ("green pears", ids[1])
    await memory.delete(ids[:1])
    stats = await memory.stats()
    assert (stats.count, stats.agent, stats.namespace) == (1, "shared", "notes")
    await memory.clear()
    assert [one.count for one in await memory.all_stats()] == []
    await memory.close()


async def test_additions_at_the_same_time_travel_together(runtime: RedisAgentRuntime) -> None:
    memory = MemoryServiceClient(runtime, "shared")
    before = runtime.handled

    await asyncio.gather(*(memory.add(text(f"fact {number}")) for number in range(100)))

    assert (await memory.stats()).count == 100
    assert runtime.handled - before < 10


async def test_many_contents_travel_in_several_messages(runtime: RedisAgentRuntime) -> None:
    memory = MemoryServiceClient(runtime, "shared")

    await memory.add_many([text(f"fact {number}") for number in range(MOST_CONTENTS + 1)])
    await memory.add_many([text(f"{number} {'long ' * 10_000}") for number in range(5)])

    assert (await memory.stats()).count == MOST_CONTENTS + 6


async def test_errors_of_the_service_arrive_as_themselves(runtime: RedisAgentRuntime) -> None:
    memory = MemoryServiceClient(runtime, "shared")
    await memory.add(text("a"))

    with pytest.raises(MemoryValueError, match="the filter can't be used"):
        await memory.query("a", where={"a": {"$like": 1}})
    with pytest.raises(MemoryValueError):
        await memory.add(MemoryContent(content=b"a", mime_type=MemoryMimeType.BINARY))
    with pytest.raises(MemoryValueError):
        await memory.query("a", k=0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'n'"):
        await memory.query("a", n=0)


async def test_it_fills_a_model_context(runtime: RedisAgentRuntime) -> None:
    memory = MemoryServiceClient(runtime, "shared")
    await memory.add(text("the bike is in the cellar"))
    context = UnboundedChatCompletionContext(
        initial_messages=[UserMessage(content="where is the bike?", source="u")]
    )

    await memory.update_context(context)

    assert str((await context.get_messages())[-1].content).endswith("\n1. the bike is in the cellar")


async def test_time_to_live_travels(runtime: RedisAgentRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000
    monkeypatch.setattr("callboard.memory.chroma._now", lambda: now)
    memory = MemoryServiceClient(runtime, "shared", ttl=60)
    await memory.add(text("short"))
    await memory.add(text("long"), ttl=3600)

    now += 100_000

    assert len(await memory.ids()) == 1


def test_neighbouring_adds_are_one() -> None:
    from callboard.memory_service import _joined

    changes: list[Change] = [
        Add(contents=[text("a")]),
        Add(contents=[text("b")]),
        Add(contents=[text("c")], ttl=1),
        Clear(),
        Delete(ids=["x"]),
        Add(contents=[text("d")]),
    ]

    assert list(_joined(changes)) == [Add(contents=[text("a"), text("b")]), *changes[2:]]


def test_an_app_has_a_service_by_one_call(tmp_path: Path) -> None:
    app = App("one")
    declaration = memory_service(app, tmp_path, type="recall")

    assert (declaration.type, declaration.agent_class, declaration.processes) == ("recall", MemoryService, 1)
    with pytest.raises(DuplicateAgentTypeError):
        memory_service(app, type="recall")
    with pytest.raises(MemoryValueError, match="path="):
        memory_service(app, tmp_path, config=PersistentChromaDBVectorMemoryConfig())


async def test_a_store_in_memory_and_a_service_of_another_type() -> None:
    app = App("private")
    memory_service(
        app, config=InMemoryChromaDBVectorMemoryConfig(), embedder=HashingEmbedder(), type="recall"
    )
    async with app.running("memory://") as runtime:
        memory = MemoryServiceClient(runtime, service="recall")
        await memory.add(text("a"))

        assert [one.content for one in (await memory.query("a")).results] == ["a"]
        assert memory.agent == "default"


async def _handled(runtime: RedisAgentRuntime, count: int) -> None:
    from tests.helpers.eventually import eventually

    await eventually(lambda: runtime.handled >= count, 30, what=lambda: runtime.handled)


async def _failed(runtime: RedisAgentRuntime, count: int) -> None:
    from tests.helpers.eventually import eventually

    await eventually(lambda: runtime.failed >= count, 30, what=lambda: runtime.failed)


class EqualTexts(MemoryStore):
    """A store that finds equal texts."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._records: dict[str, Record] = {}

    async def _add(self, contents: Sequence[MemoryContent], ttl: float | None) -> list[str]:
        records = [record_of(content) for content in contents]
        self._records |= {record.id: record for record in records}
        return [record.id for record in records]

    async def _find(self, search: Search) -> list[MemoryContent]:
        found = (one for one in self._records.values() if one.text == search.text)
        return [content_of(one.id, one.text, one.metadata, 1.0) for one in found]

    async def ids(self, where: Filter | None = None) -> list[str]:
        return list(self._records)

    async def delete(self, ids: Sequence[str] = (), *, where: Filter | None = None) -> None:
        for one in ids:
            self._records.pop(one, None)

    async def stats(self) -> MemoryStats:
        return MemoryStats(collection="equal", agent=self._agent, count=len(self._records))

    async def clear(self) -> None:
        self._records.clear()

    async def close(self) -> None:
        self._records.clear()


async def test_a_service_keeps_any_store() -> None:
    made = App("notes")
    memory_service(made, store=EqualTexts)
    async with made.running("memory://") as runtime:
        memory = MemoryServiceClient(runtime, "shared")
        await memory.add_many([text("red"), text("green", id="g")])
        (found,) = (await memory.query("green")).results
        assert (found.metadata or {})["id"] == "g"
        await memory.delete(["g"])
        assert [(one.agent, one.count) for one in await memory.all_stats()] == [("shared", 1)]


def test_a_store_of_ones_own_has_its_own_settings() -> None:
    with pytest.raises(MemoryValueError, match="given without path, config and embedder"):
        memory_service(App("notes"), "folder", store=EqualTexts)


async def test_verify_goes_through_the_service(runtime: RedisAgentRuntime) -> None:
    memory = MemoryServiceClient(runtime, "shared")
    await memory.add_many([text("red apples"), text("green pears")])

    check = await memory.verify()

    assert (check.agent, check.count, check.lost, check.left) == ("shared", 2, 0, 0)
