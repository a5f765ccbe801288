"""A text that is longer than the model reads is one memory, found by any of its parts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from callboard.memory import ChromaDBVectorMemory, InMemoryChromaDBVectorMemoryConfig
from callboard.memory.errors import MemoryValueError
from callboard.memory.stores import PART_MARK
from tests.unit.memory.contents import ShortSighted, text, texts

LONG = " ".join(f"word{number}" for number in range(60)) + " the key lies under the mat"
OTHERS = [
    text(f"nothing of this is about it, number {number}", id=f"o{number}", kind="other")
    for number in range(9)
]


@pytest.fixture
async def memory() -> AsyncIterator[ChromaDBVectorMemory]:
    made = ChromaDBVectorMemory(InMemoryChromaDBVectorMemoryConfig(k=3), ShortSighted())
    await made.add_many([text(LONG, id="long", kind="long"), *OTHERS])
    yield made
    await made.close()


async def test_a_fact_at_the_end_of_a_long_text_is_found_and_the_text_comes_whole(
    memory: ChromaDBVectorMemory,
) -> None:
    (found, *rest) = (await memory.query("the key lies under the mat")).results
    assert found.content == LONG
    metadata: dict[str, Any] = found.metadata or {}
    assert set(metadata) == {"id", "kind", "score"}
    assert (metadata["id"], metadata["kind"]) == ("long", "long")
    assert metadata["score"] > 0.8
    assert len(rest) == 2
    assert LONG not in texts(rest)


async def test_it_is_one_result_although_all_of_its_parts_fit_best(memory: ChromaDBVectorMemory) -> None:
    (found, *rest) = (await memory.query("word1 word9 word17 word25 word33 word41 word49", k=3)).results
    assert found.content == LONG
    assert len(rest) == 2, "its parts take the places of no others"


async def test_it_counts_as_one_memory(memory: ChromaDBVectorMemory) -> None:
    assert (await memory.stats()).count == 10
    assert await memory.ids({"kind": "long"}) == ["long"]
    assert len(await memory.ids()) == 10


async def test_nothing_stays_of_a_text_that_is_replaced(memory: ChromaDBVectorMemory) -> None:
    await memory.add(text("short now", id="long", kind="long"))
    found = (await memory.query("the key lies under the mat", where={"kind": "long"})).results
    assert texts(found) == ["short now"]
    assert (await memory.stats()).count == 10
    assert [one for one in _raw_ids(memory) if PART_MARK in one] == []


@pytest.mark.parametrize("doomed", [{"ids": ["long"]}, {"where": {"kind": "long"}}])
async def test_nothing_stays_of_a_text_that_is_deleted(
    memory: ChromaDBVectorMemory, doomed: dict[str, Any]
) -> None:
    await memory.delete(**doomed)
    assert LONG not in texts((await memory.query("the key lies under the mat")).results)
    assert sorted(_raw_ids(memory)) == sorted(f"o{number}" for number in range(9))


async def test_nothing_stays_of_a_text_that_expired(
    memory: ChromaDBVectorMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.add(text(LONG, id="long", kind="long"), ttl=60)
    monkeypatch.setattr("callboard.memory.chroma._now", lambda: 10**13)
    assert LONG not in texts((await memory.query("the key lies under the mat")).results)
    assert len(_raw_ids(memory)) == 9


async def test_a_long_query_is_looked_up_by_its_parts(memory: ChromaDBVectorMemory) -> None:
    question = "tell me please " * 200 + "the key lies under the mat"
    assert texts((await memory.query(question, k=1)).results) == [LONG]


async def test_an_id_can_not_be_that_of_a_part(memory: ChromaDBVectorMemory) -> None:
    with pytest.raises(MemoryValueError, match="'id' can't be stored"):
        await memory.add(text("x", id=f"a{PART_MARK}2"))


def _raw_ids(memory: ChromaDBVectorMemory) -> list[str]:
    handle: Any = memory._collection._handle
    return list(handle.get(include=[])["ids"])
