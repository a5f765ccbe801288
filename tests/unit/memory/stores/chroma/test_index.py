"""What the index of Chroma loses is found when the store is opened, and added again."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from callboard.memory import (
    ChromaDBVectorMemory,
    HashingEmbedder,
    MemoryContent,
    PersistentChromaDBVectorMemoryConfig,
    chroma_collection as collections,
)
from callboard.memory.chroma_index import HEADER, MAP, write_anew
from callboard.memory.embedders import Embedder
from callboard.memory.errors import MemoryFailedError
from tests.unit.memory.contents import text

MANY = [
    text(f"fact {number}: {number * 7919 % 10007} apples", id=f"n{number}", number=number)
    for number in range(130)
]
LONG = " ".join(f"word{number}" for number in range(400))


class Counted(HashingEmbedder):
    """Counts the texts."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    async def embed(self, texts: Any) -> Any:
        self.count += len(texts)
        return await super().embed(texts)


def opened(folder: Path, embedder: Embedder | None = None) -> ChromaDBVectorMemory:
    config = PersistentChromaDBVectorMemoryConfig(persistence_path=folder, k=1)
    return ChromaDBVectorMemory(config, embedder or HashingEmbedder())


async def filled(memory: ChromaDBVectorMemory, contents: list[MemoryContent]) -> None:
    """Fill a store whose index is written to files after a hundred changes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(collections.INDEX, "sync_threshold", 100)
        await memory.add_many(contents)
    await memory.close()


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import asyncio

    folder = tmp_path_factory.mktemp("full")

    async def fill() -> None:
        await filled(opened(folder), MANY)

    asyncio.run(fill())
    assert list(folder.glob(f"*/{MAP}"))
    return folder


@pytest.fixture
def store(full: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(full, tmp_path / "store"))


def index_of(store: Path) -> Path:
    (file,) = store.glob(f"*/{MAP}")
    return file.parent


def without_folder(index: Path) -> None:
    shutil.rmtree(index)


def without_map(index: Path) -> None:
    (index / MAP).unlink()


def with_torn_map(index: Path) -> None:
    os.truncate(index / MAP, 1_000)


def with_empty_map(index: Path) -> None:
    os.truncate(index / MAP, 0)


def with_torn_vectors(index: Path) -> None:
    os.truncate(index / "data_level0.bin", 5_000)


def with_torn_links(index: Path) -> None:
    os.truncate(index / "link_lists.bin", 10)


def with_torn_lengths(index: Path) -> None:
    os.truncate(index / "length.bin", 10)


def with_a_link_to_nothing(index: Path) -> None:
    """As where the vectors are written and the header is not."""
    file = index / "data_level0.bin"
    file.write_bytes(file.read_bytes()[:4] + b"\xf0\xff\x00\x00" + file.read_bytes()[8:])


def without_header(index: Path) -> None:
    (index / "header.bin").unlink()


def with_vectors_of_before(index: Path) -> None:
    """As where the header is written and the vectors are not."""
    header = bytearray((index / "header.bin").read_bytes())
    values = list(HEADER.unpack_from(header))
    values[3] += 100
    HEADER.pack_into(header, 0, *values)
    (index / "header.bin").write_bytes(header)


def with_map_of_later(index: Path) -> None:
    """As where the map is written and the header is not."""
    header = bytearray((index / "header.bin").read_bytes())
    values = list(HEADER.unpack_from(header))
    values[3] -= 50
    HEADER.pack_into(header, 0, *values)
    (index / "header.bin").write_bytes(header)


async def check_that_all_are_found(memory: ChromaDBVectorMemory) -> None:
    for one in MANY[::5]:
        where = {"number": (one.metadata or {})["number"]}
        (found,) = (await memory.query(one, where=where)).results
        assert found.content == one.content
    check = await memory.verify(repair=False)
    assert (check.count, check.lost, check.left) == (len(MANY), 0, 0)


DAMAGES = (
    without_folder,
    without_map,
    with_torn_map,
    with_empty_map,
    without_header,
    with_torn_vectors,
    with_torn_links,
    with_torn_lengths,
    with_a_link_to_nothing,
    with_vectors_of_before,
    with_map_of_later,
)


@pytest.mark.parametrize("damage", DAMAGES)
async def test_what_the_index_lost_is_added_again_when_the_store_is_opened(
    store: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    damage(index_of(store))
    for is_first in (True, False):
        caplog.clear()
        memory = opened(store)
        with caplog.at_level(logging.WARNING, "callboard.memory"):
            await check_that_all_are_found(memory)
        assert ("were added again" in caplog.text) is is_first
        await memory.close()


async def test_verify_tells_and_mends_only_when_it_may(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collections.ChromaCollection, "is_first_opened", lambda self: False)
    without_map(index_of(store))
    memory = opened(store)

    told = await memory.verify(repair=False)
    assert (told.count, told.lost, told.left) == (len(MANY), told.lost, told.lost)
    assert told.lost > 50
    mended = await memory.verify()
    assert (mended.lost, mended.left) == (told.lost, 0)
    await check_that_all_are_found(memory)
    await memory.close()


async def test_a_long_text_is_found_again_by_each_of_its_parts(tmp_path: Path) -> None:
    class Short(HashingEmbedder):
        async def limit(self) -> Any:
            from callboard.memory import TextLimit

            return TextLimit(50, lambda text: len(text.split()))

    await filled(opened(tmp_path / "store", Short()), [text(LONG, id="long"), *MANY])
    without_map(index_of(tmp_path / "store"))

    memory = opened(tmp_path / "store", Short())
    (found,) = (await memory.query("word380 word381 word382 word383")).results
    assert found.content == LONG
    (found,) = (await memory.query("word1 word2 word3 word4 word5")).results
    assert found.content == LONG
    assert (await memory.stats()).count == len(MANY) + 1
    await memory.close()


async def test_what_was_deleted_while_it_was_looked_for_stays_deleted(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collections.ChromaCollection, "is_first_opened", lambda self: False)
    without_map(index_of(store))
    memory = opened(store)
    read = collections.ChromaCollection.records

    def meanwhile(self: collections.ChromaCollection, ids: Any) -> Any:
        records = read(self, ids)
        if "n7" in ids:
            self.delete(["n7"], None)
        return records

    monkeypatch.setattr(collections.ChromaCollection, "records", meanwhile)
    await memory.verify()

    assert "n7" not in await memory.ids()
    assert (await memory.verify(repair=False)).left == 0
    await memory.close()


async def test_a_store_that_is_whole_is_looked_through_once_and_nothing_is_embedded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = opened(tmp_path / "store")
    await memory.add_many([text(word) for word in ("red", "green", "blue")])
    await memory.close()
    looks = 0
    look = collections.ChromaCollection.lost

    def counted(self: collections.ChromaCollection) -> list[str]:
        nonlocal looks
        looks += 1
        return look(self)

    monkeypatch.setattr(collections.ChromaCollection, "lost", counted)
    embedder = Counted()
    first, second = opened(tmp_path / "store", embedder), opened(tmp_path / "store", embedder)
    for memory in (first, second, first):
        await memory.query("apples")
    await first.close()
    await second.close()

    assert (looks, embedder.count) == (1, 3)


async def test_adding_the_same_again_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[list[str]] = []
    write = collections._upsert

    def noted(handle: Any, records: Any, vectors: Any) -> None:
        written.append([record.id for record in records])
        write(handle, records, vectors)

    monkeypatch.setattr(collections, "_upsert", noted)
    memory = opened(tmp_path / "store")
    await memory.add_many([text("a", id="1"), text("b", id="2", x=1.5, more=[1]), text("c", id="3")])
    await memory.add_many([text("a", id="1"), text("b", id="2", x=1.5, more=[1]), text("d", id="3")])
    await memory.add_many([text("b", id="2", x=2.5, more=[1])])
    assert written == [["1", "2", "3"], ["3"], ["2"]]

    await memory.add(text("a", id="1"), ttl=3600)
    assert len(written) == 3
    assert await memory.ids({"callboard.expires": {"$gt": 0}}) == ["1"]
    await memory.add(text("a", id="1"))
    assert await memory.ids({"callboard.expires": {"$gt": 0}}) == []
    await memory.close()


@pytest.fixture(autouse=True)
def no_folder_stays_locked() -> Iterator[None]:
    yield
    assert collections._held == {}


def with_secret(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and b"secret" in path.read_bytes()]


async def test_a_store_that_is_written_anew_has_nothing_of_what_was_deleted(tmp_path: Path) -> None:
    assert not write_anew(tmp_path)
    kept, forgotten = (
        ChromaDBVectorMemory(
            PersistentChromaDBVectorMemoryConfig(persistence_path=tmp_path, k=1, agent=agent),
            HashingEmbedder(),
        )
        for agent in ("a", "b")
    )
    await kept.add(text("Ada likes tea."))
    await forgotten.add(text("Bob has a secret."))
    await forgotten.clear()
    await forgotten.close()
    await kept.close()
    assert with_secret(tmp_path) == ["chroma.sqlite3"]

    assert write_anew(tmp_path)

    assert with_secret(tmp_path) == []
    again = ChromaDBVectorMemory(kept.config, HashingEmbedder())
    assert (await again.query("tea")).results[0].content == "Ada likes tea."
    await again.close()
    assert len(list(tmp_path.glob("*/data_level0.bin"))) <= 1


async def test_a_store_that_can_not_be_written_anew_says_that_texts_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = opened(tmp_path)
    await memory.add(text("a secret"))
    await memory.close()
    monkeypatch.setattr("callboard.memory.chroma_index.PATIENCE", 0.0)
    other = sqlite3.connect(tmp_path / "chroma.sqlite3", isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(MemoryFailedError, match="their texts are in its file"):
        write_anew(tmp_path)
    other.close()
