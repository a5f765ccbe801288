"""Contents become flat records and come back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from callboard.memory import MemoryContent, MemoryMimeType
from callboard.memory.errors import MemoryValueError
from callboard.memory.stores import EXPIRES, content_of, is_expired, record_of
from tests.unit.memory.contents import text

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
keys = st.text(min_size=1).filter(lambda key: not key.startswith("callboard.") and key not in ("id", "score"))


def again(content: MemoryContent) -> MemoryContent:
    record = record_of(content)
    return content_of(record.id, record.text, record.metadata, 0.5)


@example("", {"content": None})
@given(st.text(), st.dictionaries(keys, plain))
def test_a_text_comes_back_with_its_metadata(content: str, metadata: dict[str, Any]) -> None:
    found = again(text(content, **metadata))

    assert found.content == content
    assert found.metadata is not None
    assert {key: value for key, value in found.metadata.items() if key not in ("id", "score")} == metadata


@pytest.mark.parametrize(
    "content",
    [
        MemoryContent(content={"a": [1]}, mime_type=MemoryMimeType.JSON),
        MemoryContent(content='{"a": [1]}', mime_type=MemoryMimeType.JSON),
        MemoryContent(content="# a", mime_type=MemoryMimeType.MARKDOWN),
        MemoryContent(content="a", mime_type="text/x-own"),
    ],
)
def test_kinds_of_contents_come_back(content: MemoryContent) -> None:
    found = again(content)

    assert (found.content, found.mime_type) == (content.content, content.mime_type)


def test_metadata_are_flat_so_that_they_can_be_filtered_by() -> None:
    record = record_of(text("a", n=1, big=2**70, tags=["x"], f=1.5, yes=True))

    assert all(isinstance(value, str | int | float | bool) for value in record.metadata.values())
    assert {"n": 1, "f": 1.5, "yes": True}.items() <= record.metadata.items()
    assert "big" not in record.metadata


def test_the_id_is_the_given_one_or_a_new_one() -> None:
    assert record_of(text("a", id="mine")).id == "mine"
    assert record_of(text("a")).id != record_of(text("a")).id


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"id": 3}, "metadata 'id' can't be stored: it has to be text"),
        ({"id": ""}, "at least one character"),
        ({"callboard.mime": "x"}, "keys that begin with 'callboard.' are ours"),
        ({"f": object()}, "metadata 'f' can't be stored: it is no plain data"),
    ],
)
def test_metadata_that_cannot_be_stored_are_refused(metadata: dict[str, Any], message: str) -> None:
    with pytest.raises(MemoryValueError, match=message):
        record_of(text("a", **metadata))


def test_bytes_are_refused() -> None:
    with pytest.raises(MemoryValueError):
        record_of(MemoryContent(content=b"a", mime_type=MemoryMimeType.BINARY))


def test_a_record_of_another_program_is_a_text() -> None:
    found = content_of("1", "a", None, 0.25)

    assert found == text("a", id="1", score=0.25)


def test_when_a_record_is_expired() -> None:
    assert [is_expired({EXPIRES: 10}, now) for now in (9, 10, 11)] == [False, True, True]
    assert not is_expired({}, 10)
    assert not is_expired(None, 10)
