"""The promises of ChromaDBVectorMemory, in memory, in a folder and on a server that can't be reached."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from callboard import CancellationToken
from callboard.memory import (
    ChromaDBVectorMemory,
    ChromaDBVectorMemoryConfig,
    HashingEmbedder,
    HttpChromaDBVectorMemoryConfig,
    InMemoryChromaDBVectorMemoryConfig,
    MemoryContent,
    MemoryMimeType,
    MemoryStats,
    PersistentChromaDBVectorMemoryConfig,
)
from callboard.memory.contexts import UnboundedChatCompletionContext
from callboard.memory.errors import (
    MemoryFailedError,
    MemoryUnusableError,
    MemoryValueError,
    StoreUnavailableError,
)
from callboard.memory.llm_messages import UserMessage
from tests.unit.memory.contents import text, texts

ANIMALS = [
    text("the owl hunts mice at night", id="owl", wings=2, kind="bird"),
    text("the bat hunts moths at night", id="bat", wings=2, kind="mammal"),
    text("the cow eats grass all day", id="cow", wings=0, kind="mammal"),
    text("the hen eats grain all day", id="hen", wings=2, kind="bird"),
]


def config_of(kind: str, folder: Path, **settings: Any) -> ChromaDBVectorMemoryConfig:
    if kind == "folder":
        return PersistentChromaDBVectorMemoryConfig(persistence_path=folder / "store", **settings)
    return InMemoryChromaDBVectorMemoryConfig(**settings)


@pytest.fixture(params=["private", "folder"])
async def memory(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ChromaDBVectorMemory]:
    made = ChromaDBVectorMemory(config_of(request.param, tmp_path), HashingEmbedder())
    yield made
    await made.close()


async def test_the_closest_content_is_found_first(memory: ChromaDBVectorMemory) -> None:
    await memory.add_many(ANIMALS)

    found = (await memory.query("what hunts at night", k=2)).results

    assert [(one.metadata or {})["id"] for one in found] == ["owl", "bat"]
    scores = [(one.metadata or {})["score"] for one in found]
    assert 1 > scores[0] >= scores[1] > 0.5


async def test_the_same_text_has_the_score_1(memory: ChromaDBVectorMemory) -> None:
    await memory.add_many(ANIMALS)

    (found,) = (await memory.query(ANIMALS[2], k=1)).results

    assert found.content == ANIMALS[2].content
    assert (found.metadata or {})["score"] == pytest.approx(1, abs=1e-5)
    assert (found.metadata or {})["kind"] == "mammal"


async def test_as_many_as_configured_unless_asked_for_others(memory: ChromaDBVectorMemory) -> None:
    await memory.add_many(ANIMALS)

    assert len((await memory.query("day")).results) == memory.config.k == 3
    assert len((await memory.query("day", k=10)).results) == 4


async def test_a_threshold_leaves_out_lower_scores(memory: ChromaDBVectorMemory) -> None:
    await memory.add_many(ANIMALS)

    found = await memory.query("the cow eats grass all day", score_threshold=0.99)

    assert texts(found.results) == ["the cow eats grass all day"]


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ({"kind": "bird"}, {"owl", "hen"}),
        ({"kind": "mammal", "wings": {"$gt": 0}}, {"bat"}),
        ({"$or": [{"wings": 0}, {"kind": "bird"}]}, {"cow", "owl", "hen"}),
        ({}, {"owl", "bat", "cow", "hen"}),
    ],
)
async def test_filters(memory: ChromaDBVectorMemory, where: dict[str, Any], ids: set[str]) -> None:
    await memory.add_many(ANIMALS)

    found = (await memory.query("animal", k=10, where=where)).results

    assert {(one.metadata or {})["id"] for one in found} == ids
    assert set(await memory.ids(where)) == ids


@pytest.mark.parametrize("where", [{"kind": {"$like": "b"}}, {"$and": []}, {"kind": None}])
async def test_filters_that_are_not_understood(memory: ChromaDBVectorMemory, where: dict[str, Any]) -> None:
    await memory.add_many(ANIMALS)

    with pytest.raises(MemoryValueError, match="the filter can't be used"):
        await memory.query("animal", where=where)


async def test_the_same_id_replaces(memory: ChromaDBVectorMemory) -> None:
    await memory.add(text("first", id="a"))
    await memory.add_many([text("second", id="a"), text("third", id="a"), text("other", id="b")])

    assert sorted(texts((await memory.query("x", k=9)).results)) == ["other", "third"]


async def test_a_found_content_can_be_changed_and_added_again(memory: ChromaDBVectorMemory) -> None:
    await memory.add(text("tea is hot"))
    (found,) = (await memory.query("tea")).results

    await memory.add(found.model_copy(update={"content": "tea is cold"}))

    assert texts((await memory.query("tea")).results) == ["tea is cold"]


async def test_deleting_by_id_and_by_filter(memory: ChromaDBVectorMemory) -> None:
    await memory.add_many(ANIMALS)

    await memory.delete(["owl", "nobody"])
    await memory.delete(where={"wings": 0})

    assert set(await memory.ids()) == {"bat", "hen"}


async def test_a_new_store_is_empty(memory: ChromaDBVectorMemory) -> None:
    await memory.delete(["a"])
    await memory.clear()

    assert (await memory.query("a")).results == []
    assert await memory.ids() == []
    assert await memory.add_many([]) == []
    assert await memory.stats() == MemoryStats(
        collection=memory.collection_name, namespace="main", agent="default", count=0, metric="cosine"
    )


async def test_stats_name_model_and_count(memory: ChromaDBVectorMemory) -> None:
    await memory.add_many(ANIMALS)

    stats = await memory.stats()

    assert (stats.count, stats.model, stats.dimension, stats.metric) == (4, "hashing-256", 256, "cosine")
    assert stats in await memory.all_stats()


async def test_expired_contents_are_not_found_and_are_deleted(
    memory: ChromaDBVectorMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000_000
    monkeypatch.setattr("callboard.memory.chroma._now", lambda: now)
    await memory.add(text("short news"), ttl=10)
    await memory.add(text("old news"))
    assert len((await memory.query("news")).results) == 2

    now += 10_000

    assert texts((await memory.query("short news", k=1)).results) == ["old news"]
    assert (await memory.stats()).count == 1


async def test_json_and_markdown_are_remembered(memory: ChromaDBVectorMemory) -> None:
    contents = [
        MemoryContent(content={"owner": "Ada"}, mime_type=MemoryMimeType.JSON),
        MemoryContent(content="# Engines", mime_type=MemoryMimeType.MARKDOWN),
    ]
    await memory.add_many(contents)

    found = (await memory.query("owner Ada", k=1)).results[0]

    assert (found.content, found.mime_type) == ({"owner": "Ada"}, MemoryMimeType.JSON)


async def test_bytes_are_refused(memory: ChromaDBVectorMemory) -> None:
    with pytest.raises(MemoryValueError):
        await memory.add(MemoryContent(content=b"x", mime_type=MemoryMimeType.BINARY))


async def test_a_context_gets_memories_about_its_last_message(memory: ChromaDBVectorMemory) -> None:
    await memory.add_many(ANIMALS)
    question = UserMessage(content="which cow eats grass?", source="u")
    context = UnboundedChatCompletionContext(initial_messages=[question])

    result = await memory.update_context(context)

    first, added = await context.get_messages()
    assert first is question
    assert str(added.content).startswith("\nRelevant memory content:\n1. the cow eats grass all day\n2. ")
    assert len(result.memories.results) == 3


async def test_an_empty_context_gets_nothing(memory: ChromaDBVectorMemory) -> None:
    await memory.add_many(ANIMALS)
    context = UnboundedChatCompletionContext()

    assert (await memory.update_context(context)).memories.results == []
    assert await context.get_messages() == []


async def test_vectors_of_another_model_are_refused(tmp_path: Path) -> None:
    config = PersistentChromaDBVectorMemoryConfig(persistence_path=tmp_path)
    memory, other = (ChromaDBVectorMemory(config, HashingEmbedder(size)) for size in (256, 128))
    await memory.add(text("a"))

    sentence = r"was made with hashing-256 \(256 numbers\) and this process uses hashing-128 \(128 numbers\)"
    with pytest.raises(MemoryUnusableError, match=sentence):
        await other.add(text("b"))
    with pytest.raises(MemoryUnusableError, match="use that model, another collection, or clear this one"):
        await other.query("b")
    await other.clear()
    await other.add(text("b"))

    assert texts((await other.query("b")).results) == ["b"]
    with pytest.raises(MemoryUnusableError):
        await memory.add(text("c"))
    await memory.close()
    await other.close()


@pytest.mark.parametrize(("metric", "score"), [("cosine", 1.0), ("ip", 1.0), ("l2", 1.0)])
async def test_chroma_really_uses_the_metric(tmp_path: Path, metric: Any, score: float) -> None:
    config = PersistentChromaDBVectorMemoryConfig(persistence_path=tmp_path, distance_metric=metric)
    memory = ChromaDBVectorMemory(config, HashingEmbedder())
    await memory.add(text("same"))

    (found,) = (await memory.query("same")).results

    assert (await memory.stats()).metric == metric
    assert (found.metadata or {})["score"] == pytest.approx(score, abs=1e-4)
    await memory.close()


async def test_a_folder_that_is_opened_again_has_everything(tmp_path: Path) -> None:
    config = PersistentChromaDBVectorMemoryConfig(persistence_path=tmp_path, agent="writer/default")
    first = ChromaDBVectorMemory(config, HashingEmbedder())
    await first.add_many(ANIMALS)
    await first.close()

    second = ChromaDBVectorMemory(config, HashingEmbedder())
    other = ChromaDBVectorMemory(replace(config, agent="reader"), HashingEmbedder())

    assert (await second.stats()).count == 4
    assert (await other.stats()).count == 0
    assert [one.agent for one in await other.all_stats()] == ["writer/default"]
    await second.close()
    await other.close()


async def test_many_memories_of_one_store_open_at_once(tmp_path: Path) -> None:
    config = PersistentChromaDBVectorMemoryConfig(persistence_path=tmp_path)
    memories = [ChromaDBVectorMemory(replace(config, agent=f"a{n}"), HashingEmbedder()) for n in range(8)]

    await asyncio.gather(*(one.add(text("a")) for one in memories))

    assert [one.count for one in await memories[0].all_stats()] == [1] * 8
    await asyncio.gather(*(one.close() for one in memories))


async def test_memories_in_memory_never_meet() -> None:
    first, second = (
        ChromaDBVectorMemory(InMemoryChromaDBVectorMemoryConfig(), HashingEmbedder()) for _ in "12"
    )
    await first.add(text("a"))

    assert (await second.query("a")).results == []
    await first.close()
    await second.close()


async def test_a_closed_memory_says_so(memory: ChromaDBVectorMemory) -> None:
    await memory.close()
    await memory.close()

    with pytest.raises(MemoryFailedError, match="is closed: make another one"):
        await memory.query("a")


async def test_a_second_process_is_refused(tmp_path: Path) -> None:
    memory = ChromaDBVectorMemory(
        PersistentChromaDBVectorMemoryConfig(persistence_path=tmp_path), HashingEmbedder()
    )
    await memory.add(text("a"))
    code = (
        "import asyncio, sys\n"
        "from callboard.memory import *\n"
        "config = PersistentChromaDBVectorMemoryConfig(persistence_path=sys.argv[1])\n"
        "try:\n"
        "    asyncio.run(ChromaDBVectorMemory(config, HashingEmbedder()).stats())\n"
        "except LongTermMemoryError as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.startswith(f"{MemoryFailedError.__name__} process ")
    await memory.close()


async def test_a_server_that_does_not_answer() -> None:
    memory = ChromaDBVectorMemory(HttpChromaDBVectorMemoryConfig(host="127.0.0.1", port=1), HashingEmbedder())

    with pytest.raises(StoreUnavailableError, match=r"the memory at http://127.0.0.1:1 can't be reached"):
        await memory.add(text("a"))


async def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    config = PersistentChromaDBVectorMemoryConfig(persistence_path=tmp_path / "file" / "store")

    with pytest.raises(StoreUnavailableError, match="can't be reached: Not a directory"):
        await ChromaDBVectorMemory(config, HashingEmbedder()).stats()


async def test_a_cancelled_token_ends_the_wait(memory: ChromaDBVectorMemory) -> None:
    token = CancellationToken()
    token.cancel()

    with pytest.raises(asyncio.CancelledError):
        await memory.query("a", token)


async def test_unknown_arguments_are_refused(memory: ChromaDBVectorMemory) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'n_results'"):
        await memory.query("a", n_results=3)
    with pytest.raises(MemoryValueError, match="k=0"):
        await memory.query("a", k=0)


async def test_a_folder_that_was_deleted_is_begun_anew(tmp_path: Path) -> None:
    configs = [config_of("folder", tmp_path, agent=agent) for agent in ("a", "b")]
    memories = [ChromaDBVectorMemory(config, HashingEmbedder()) for config in configs]
    for memory in memories:
        await memory.add(text("before"))
    shutil.rmtree(tmp_path / "store")

    assert [(await memory.query("before")).results for memory in memories] == [[], []]
    for memory in memories:
        await memory.add(text("after"))
        assert texts((await memory.query("after")).results) == ["after"]
        await memory.close()

    reopened = ChromaDBVectorMemory(configs[0], HashingEmbedder())
    assert texts((await reopened.query("after")).results) == ["after"]
    await reopened.close()


async def test_a_folder_that_was_replaced_is_the_one_that_counts(tmp_path: Path) -> None:
    config = config_of("folder", tmp_path)
    memory = ChromaDBVectorMemory(config, HashingEmbedder())
    await memory.add(text("of the backup"))
    await memory.close()
    shutil.copytree(tmp_path / "store", tmp_path / "backup")
    await memory_of(config, "newer")

    open_one = ChromaDBVectorMemory(config, HashingEmbedder())
    assert (await open_one.stats()).count == 2
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "backup").rename(tmp_path / "store")
    assert texts((await open_one.query("of the backup")).results) == ["of the backup"]
    await open_one.close()


async def memory_of(config: ChromaDBVectorMemoryConfig, content: str) -> None:
    memory = ChromaDBVectorMemory(config, HashingEmbedder())
    await memory.add(text(content))
    await memory.close()


async def test_nothing_is_written_to_a_disk_that_is_nearly_full(tmp_path: Path) -> None:
    config = config_of("folder", tmp_path)
    memory = ChromaDBVectorMemory(config, HashingEmbedder())
    await memory.add(text("while there was room"))
    await memory.close()
    full = ChromaDBVectorMemory(replace(config, min_free=2**60), HashingEmbedder())  # type: ignore[call-arg]
    with pytest.raises(
        StoreUnavailableError, match=r"nothing is written below .* \(min_free\): make room on it"
    ) as failed:
        await full.add(text("too late"))
    assert failed.value.is_outage, "changes wait for room"
    assert texts((await full.query("room")).results) == ["while there was room"]
    await full.close()
