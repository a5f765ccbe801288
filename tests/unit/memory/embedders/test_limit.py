"""Texts that are longer than a model reads are cut into parts that are not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from callboard.memory import FunctionEmbedder, HashingEmbedder, NumpyEmbedder, TextLimit
from callboard.memory.embedders import BatchingEmbedder, limit_of, parts_of
from callboard.memory.local_embedders import (
    SentenceTransformerEmbedder,
    default_model_folder,
    has_sentence_transformers,
)
from tests.unit.memory.contents import ShortSighted, words

WORDS = TextLimit(8, words)
LETTERS = TextLimit(8, lambda text: len(text.replace(" ", "")))


def test_a_text_that_fits_is_one_part() -> None:
    assert parts_of("one two three", WORDS) == ["one two three"]
    assert parts_of("", WORDS) == [""]
    assert parts_of("word " * 900, None) == ["word " * 900]


def test_a_part_ends_at_a_sentence_where_one_is_near() -> None:
    assert parts_of("a b c d e f. g h i j k l m n o", WORDS) == ["a b c d e f.", "g h i j k l m n", "o"]


def test_parts_repeat_the_last_words_of_the_one_before() -> None:
    limit = TextLimit(20, words)
    parts = parts_of(" ".join(f"w{number}" for number in range(50)), limit)
    assert [(part.split()[0], part.split()[-1]) for part in parts] == [
        ("w0", "w19"),
        ("w18", "w37"),
        ("w36", "w49"),
    ]


@given(st.text(alphabet="ab. \n字", max_size=200), st.sampled_from([WORDS, LETTERS]))
@settings(deadline=None)
def test_every_part_fits_and_every_word_is_in_one(text: str, limit: TextLimit) -> None:
    parts = parts_of(text, limit)
    assert all(limit.count(part) <= limit.tokens for part in parts)
    pieces = iter(parts)
    whole = re.sub(r"\s", "", text)
    seen = re.sub(r"\s", "", "".join(pieces))
    assert set(whole) == set(seen)
    assert len(seen) >= len(whole)


@pytest.mark.parametrize("kind", [NumpyEmbedder, SentenceTransformerEmbedder])
async def test_the_default_model_reads_254_tokens(kind: type[NumpyEmbedder], tmp_path: Path) -> None:
    if kind is not NumpyEmbedder and not has_sentence_transformers():
        pytest.skip("sentence-transformers is not installed: callboard[embeddings] brings it")
    for file in default_model_folder().iterdir():
        if file.suffix != ".safetensors":  # the weights are not needed to count
            (tmp_path / file.name).symlink_to(file)
    embedder = kind(tmp_path)
    limit = await limit_of(embedder)
    assert limit is not None
    assert (limit.tokens, limit.count("hello world"), limit.fits("word " * 254)) == (254, 2, True)
    assert not limit.fits("word " * 255)
    parts = parts_of("Größe übertreibt, 日本語のテキスト. " * 80, limit)
    assert len(parts) > 2
    assert all(limit.fits(part) for part in parts)


async def test_who_has_a_limit_says_so() -> None:
    async def function(texts: list[str]) -> list[list[float]]:
        return [[1.0] for _ in texts]

    assert await limit_of(HashingEmbedder()) is None
    assert await limit_of(FunctionEmbedder(function, model="f", dimension=1)) is None
    assert await limit_of(FunctionEmbedder(function, model="f", dimension=1, limit=WORDS)) == WORDS
    assert await limit_of(BatchingEmbedder(ShortSighted())) == ShortSighted.LIMIT
    assert await limit_of(BatchingEmbedder(HashingEmbedder()).queries) is None
