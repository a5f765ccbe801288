"""Pieces fit, lose nothing, and end where a reader would end them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from callboard.memory import TextLimit
from callboard.memory.documents import BETWEEN, ChunkSettings, chunk
from callboard.memory.errors import MemoryValueError

ROOT = Path(__file__).parents[4]
SMALL = ChunkSettings(size=120, overlap=30)

words = st.text(alphabet="abcdefghij.!?`#-*|~ \n", max_size=600)


def bodies(text: str, settings: ChunkSettings) -> list[str]:
    return [one.text for one in chunk(text, settings)]


@given(words, st.integers(20, 200))
def test_no_piece_is_too_long_and_no_word_is_lost(text: str, size: int) -> None:
    pieces = chunk(text, ChunkSettings(size=size, overlap=0))

    assert all(len(piece.text) <= size for piece in pieces)
    assert [piece.number for piece in pieces] == list(range(len(pieces)))
    shown = re.sub(r"\W", "", "".join(piece.text for piece in pieces))
    below = re.sub(r"(?m)^ {0,3}#{1,6}.*$", "", text)  # of long headings only a part stands above each piece
    for word in re.findall(r"[a-j]{2,10}", below):
        if word not in shown:
            # A word that is longer than a line is cut, and its parts stand in pieces that follow.
            assert all(letter in shown for letter in word)


def test_a_heading_with_nothing_below_it_is_a_piece() -> None:
    assert bodies("# aa", SMALL) == ["aa"]
    assert bodies("#  ", SMALL) == []
    assert bodies("# Plan\n\n## Later\n\n## Now\n\nBuild it.\n\n# End", SMALL) == [
        f"Plan{BETWEEN}Later",
        f"Plan{BETWEEN}Now\n\nBuild it.",
        "End",
    ]


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
@pytest.mark.parametrize("size", [200, 1000])
def test_our_own_pages(page: Path, size: int) -> None:
    text = page.read_text("utf-8")

    pieces = chunk(text, ChunkSettings(size=size, overlap=size // 8))

    assert all(len(piece.text) <= size for piece in pieces)
    everything = " ".join(piece.text for piece in pieces)
    missing = [word for word in set(re.findall(r"\w+", text)) if word not in everything]
    # Of long headings only a part stands above each piece.
    assert len(missing) <= 3


def test_a_short_text_is_one_piece() -> None:
    assert bodies("Just a line.", SMALL) == ["Just a line."]
    assert bodies("", SMALL) == bodies(" \n\n", SMALL) == []


def test_pieces_end_at_sentences_and_begin_with_the_last_one() -> None:
    text = (
        "The first sentence is about apples. The second one is on pears. Figs come third. "
        "The fourth one is long and says a lot of plums. The fifth ends it."
    )

    assert bodies(text, ChunkSettings(size=90, overlap=20)) == [
        "The first sentence is about apples. The second one is on pears. Figs come third.",
        "Figs come third. The fourth one is long and says a lot of plums. The fifth ends it.",
    ]


def test_abbreviations_end_no_sentence() -> None:
    text = "Dr. Ada met Mr. B. at noon, e.g. on Monday. They talked about the old engine for hours."

    assert bodies(text, ChunkSettings(size=60, overlap=0))[0] == "Dr. Ada met Mr. B. at noon, e.g. on Monday."


def test_sections_are_kept_apart_and_named() -> None:
    text = "# Fruit\n\nAll about it.\n\n## Apples\n\nRed ones.\n\n### Old\n\nBrown.\n\n## Pears ##\n\nGreen ones.\n"

    assert bodies(text, SMALL) == [
        "Fruit\n\nAll about it.",
        "Fruit › Apples\n\nRed ones.",
        "Fruit › Apples › Old\n\nBrown.",
        "Fruit › Pears\n\nGreen ones.",
    ]
    assert chunk(text, SMALL)[2].headings == ("Fruit", "Apples", "Old")


def test_long_headings_give_way_to_the_innermost() -> None:
    text = f"# {'Very ' * 20}long\n\n## Short\n\nText."

    assert bodies(text, SMALL) == ["Short\n\nText."]


def test_a_hash_in_a_fence_is_no_heading() -> None:
    text = "Do this:\n\n```sh\n# a comment\n\nmake all\n```\n\nDone."

    assert bodies(text, SMALL) == ["Do this:\n\n```sh\n# a comment\n\nmake all\n```\n\nDone."]


def test_a_long_fence_is_cut_at_lines_and_every_part_is_a_fence() -> None:
    lines = [f"print({number}, 'something to print')" for number in range(8)]
    parts = bodies("\n".join(["```python", *lines, "```"]), SMALL)

    assert len(parts) > 1
    assert all(part.startswith("```python\n") and part.endswith("\n```") for part in parts)
    inside = [line for part in parts for line in part.split("\n")[1:-1]]
    assert inside == lines


def test_a_fence_that_is_not_closed_goes_on_to_the_end() -> None:
    assert bodies("```\n# a\nb", SMALL) == ["```\n# a\nb"]


def test_lists_and_tables_keep_their_lines() -> None:
    text = "- one\n- two\n  goes on\n\n| a | b |\n|---|---|\n| 1 | 2 |"

    assert bodies(text, SMALL) == ["- one\n- two goes on\n\n| a | b |\n|---|---|\n| 1 | 2 |"]


def test_a_word_that_is_too_long_is_cut() -> None:
    assert "".join(bodies("x" * 500, SMALL)) == "x" * 500


def test_other_units_than_characters() -> None:
    def count(text: str) -> int:
        return len(text.split())

    text = " ".join(f"w{number}." for number in range(100))

    pieces = bodies(text, ChunkSettings(size=20, overlap=5, count=count))

    assert {count(piece) for piece in pieces[:-1]} == {20}
    assert pieces[1].startswith("w15. w16.")


@pytest.mark.parametrize(
    ("size", "overlap", "name"), [(10, 0, "size"), (100, 51, "overlap"), (100, -1, "overlap")]
)
def test_sizes_that_cannot_work(size: int, overlap: int, name: str) -> None:
    with pytest.raises(MemoryValueError, match=f"^{name}="):
        ChunkSettings(size=size, overlap=overlap)


def test_pieces_are_measured_in_the_tokens_of_the_model() -> None:
    limit = TextLimit(100, lambda text: len(text.split()))
    settings = ChunkSettings.reading(limit)
    assert (settings.size, settings.overlap, settings.count) == (100, 12, limit.count)
    assert ChunkSettings.reading(TextLimit(8_191, len)).size == 256
    assert ChunkSettings.reading(limit, size=40, overlap=3) == ChunkSettings(
        size=40, overlap=3, count=limit.count
    )
    assert ChunkSettings.reading(None) == ChunkSettings(size=1_000, overlap=125)
    with pytest.raises(MemoryValueError, match="size=101 can't work: it must be at most the 100 tokens"):
        ChunkSettings.reading(limit, size=101)
