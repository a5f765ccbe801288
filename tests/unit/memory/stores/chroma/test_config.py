"""Settings that can't work are refused where they are written; collections never meet by accident."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from callboard.memory import (
    ChromaDBVectorMemoryConfig,
    HttpChromaDBVectorMemoryConfig,
    PersistentChromaDBVectorMemoryConfig,
)
from callboard.memory.chroma_config import collection_of
from callboard.memory.errors import MemoryValueError


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"collection_name": "ab"}, "collection_name"),
        ({"collection_name": "a/b/c"}, "collection_name"),
        ({"distance_metric": "euclid"}, "distance_metric"),
        ({"k": 0}, "k"),
        ({"k": 1.5}, "k"),
        ({"score_threshold": float("nan")}, "score_threshold"),
        ({"ttl": 0}, "ttl"),
        ({"ttl": float("inf")}, "ttl"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], name: str) -> None:
    with pytest.raises(MemoryValueError, match=f"^{name}=.* can't work: it must be "):
        PersistentChromaDBVectorMemoryConfig(**settings)


def test_a_collection_name_is_used_as_it_is() -> None:
    assert ChromaDBVectorMemoryConfig(collection_name="memory_store").collection == "memory_store"
    assert ChromaDBVectorMemoryConfig().collection == "main.default"


pair = st.tuples(st.text(max_size=200), st.text(max_size=200))


@given(pair, pair)
def test_every_agent_has_a_collection_of_its_own(one: tuple[str, str], other: tuple[str, str]) -> None:
    names = [collection_of(*one), collection_of(*other)]

    assert all(re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9._-]{1,510}[a-zA-Z0-9]", name) for name in names)
    assert (names[0] == names[1]) == (one == other)


def test_dots_do_not_mix_namespaces_up() -> None:
    assert collection_of("a.b", "c") != collection_of("a", "b.c")


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://127.0.0.1:8000", ("127.0.0.1", 8000, False)),
        ("https://chroma.example", ("chroma.example", 443, True)),
        ("http://chroma/", ("chroma", 80, False)),
    ],
)
def test_a_server_by_url(url: str, place: tuple[str, int, bool]) -> None:
    config = HttpChromaDBVectorMemoryConfig.from_url(url, agent="writer")

    assert (config.host, config.port, config.ssl) == place
    assert config.agent == "writer"


@pytest.mark.parametrize(
    "url", ["", "chroma:8000", "redis://chroma", "http://", "http://a:b", "http://a/v2", "http://u:secret@a"]
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(MemoryValueError, match="http:// or https:// with a host") as caught:
        HttpChromaDBVectorMemoryConfig.from_url(url)
    assert "secret" not in str(caught.value)


def test_headers_are_not_shown() -> None:
    assert "secret" not in repr(HttpChromaDBVectorMemoryConfig(headers={"x-chroma-token": "secret"}))
