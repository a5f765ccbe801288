"""Sentences and words."""

import pytest
from hypothesis import given, strategies as st

from examples.digest.text import (
    MAX_SENTENCE_CHARS,
    MAX_SENTENCE_WORDS,
    count_words,
    is_finished,
    sentences,
    similarity,
    terms,
)


@pytest.mark.parametrize(
    ("paragraph", "expected"),
    [
        ("One cat sat. Two dogs ran! Did three?", ["One cat sat.", "Two dogs ran!", "Did three?"]),
        ("Use a tool, e.g. Ruff. It helps.", ["Use a tool, e.g. Ruff.", "It helps."]),
        ("Dr. Who met Mr. J. Smith. They left.", ["Dr. Who met Mr. J. Smith.", "They left."]),
        ("Version 3.11 is out. Get it.", ["Version 3.11 is out.", "Get it."]),
        ("Call `a. B` first. Then stop.", ["Call `a. B` first.", "Then stop."]),
        ("It stops (at last. Or not.) here. Good.", ["It stops (at last. Or not.) here.", "Good."]),
        ("An unclosed (bracket. Goes on.", ["An unclosed (bracket.", "Goes on."]),
        ("She said “Go.” He went.", ["She said “Go.”", "He went."]),
        ("今天天气很好。我们去公园！好吗？", ["今天天气很好。", "我们去公园！", "好吗？"]),
        ("no end at all", ["no end at all"]),
        ("", []),
    ],
)
def test_a_paragraph_is_cut_where_a_sentence_ends(paragraph: str, expected: list[str]) -> None:
    assert sentences(paragraph) == expected


@pytest.mark.parametrize("run", ["word " * 5_000, "x" * 20_000, "中" * 5_000, "a, b; c " * 3_000])
def test_a_run_without_full_stops_is_cut(run: str) -> None:
    cut = sentences(run.strip())
    assert len(cut) > 1
    assert all(len(one) <= MAX_SENTENCE_CHARS and count_words(one) <= MAX_SENTENCE_WORDS for one in cut)


@given(st.text(max_size=400))
def test_nothing_but_space_gets_lost(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        ("one two", 2),
        ("— * #", 0),
        ("don't re-use 3.11", 3),
        ("你好世界", 2),
        ("Redis 很快", 2),
        ("हिन्दी में", 2),
    ],
)
def test_words_are_counted_in_any_script(text: str, words: int) -> None:
    assert count_words(text) == words


def test_terms_are_distinct_stemmed_and_in_order() -> None:
    assert terms("The workers worked; a worker's stories, 42 stories.") == ["worker", "work", "stor"]
    assert terms("机器学习") == ["机器", "器学", "学习"]


def test_similarity_is_the_share_of_the_shorter_list() -> None:
    assert similarity(["a", "b"], ["b", "c", "a"]) == 1.0
    assert similarity([], ["a"]) == 0.0


@pytest.mark.parametrize(
    ("text", "finished"),
    [("Done.", True), ("“Done!”", True), ("完了。", True), ("see `x`", False), ("Then:", False)],
)
def test_a_sentence_is_finished_by_its_last_sign(text: str, finished: bool) -> None:
    assert is_finished(text) is finished
