"""The job as pure functions: ten subtasks, three rounds, one digest within its budget."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from examples.digest.markdown import passages
from examples.digest.messages import PARTS, Document, Measure, Requirements, Subtask
from examples.digest.result import Digest, render
from examples.digest.steps import allocate, collect, gather, rehearse, review, split, top_up, write
from examples.digest.text import count_words

WORDS = (
    "actor",
    "redis",
    "stream",
    "commit",
    "a",
    "the",
    "流れ",
    "señal",
    "`x()`",
    "нить",
    "e.g.",
    "3.5",
    "🙂",
    "",
)

sentence = st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(
    lambda words: " ".join(words).capitalize() + "."
)
block = st.one_of(
    st.lists(sentence, min_size=1, max_size=5).map(" ".join),
    st.builds(lambda level, text: f"{'#' * level} {text[:40]}", st.integers(1, 4), sentence),
    sentence.map(lambda text: f"- {text}"),
    st.text(max_size=80),
)
texts = st.lists(block, max_size=25).map("\n\n".join)
document = st.builds(Document, name=st.sampled_from(("a.md", "b.txt", "c/d.md")), text=texts)
documents = st.lists(document, max_size=4)


def requirements(*given_documents: Document, words: int = 350) -> Requirements:
    return Requirements(job="job", title="The title", documents=list(given_documents), words=words)


def prose(sentences: int, heading_every: int = 10) -> Document:
    lines: list[str] = []
    for at in range(sentences):
        if at % heading_every == 0:
            lines.append(f"\n## Chapter {at // heading_every}\n")
        lines.append(f"Sentence {at} tells of worker w{at % 17}x and of stream s{at % 13}x at length l{at}x.")
    return Document(name="prose.md", text="\n".join(lines))


def uneven() -> Document:
    """Each part has a section on what all of the text is about, and a longer one that is beside the point."""
    lines: list[str] = []
    for part in range(PARTS):
        lines.append(f"\n## Streams {part}\n")
        lines += [
            f"Actors n{part}x{at} commit streams m{part}x{at} of messages z{part}x{at}." for at in range(4)
        ]
        lines.append(f"\n## Aside {part}\n")
        lines += [
            f"It a{part}y{at} rained b{part}y{at} on c{part}y{at} that d{part}y{at} day." for at in range(4)
        ]
    return Document(name="uneven.md", text="\n".join(lines))


def placed(subtasks: list[Subtask]) -> list[tuple[int, str]]:
    return [
        (section.start + at, text)
        for subtask in subtasks
        for section in subtask.sections
        for at, text in enumerate(section.sentences)
    ]


@given(documents)
def test_there_are_ten_subtasks_and_every_sentence_is_in_one(given_documents: list[Document]) -> None:
    subtasks = split(requirements(*given_documents))
    expected = [text for one in given_documents for passage in passages(one) for text in passage.sentences]
    assert [subtask.number for subtask in subtasks] == list(range(1, PARTS + 1))
    assert placed(subtasks) == list(enumerate(expected))


@given(documents, st.integers(100, 400))
def test_a_digest_is_within_its_budget_and_repeats_nothing(
    given_documents: list[Document], words: int
) -> None:
    results = rehearse(requirements(*given_documents, words=words))
    digest = Digest.of(results)
    sentences = {text for one in given_documents for passage in passages(one) for text in passage.sentences}
    picked = [pick.text.casefold() for pick in digest.picks]
    assert count_words(digest.markdown) <= words
    assert sum(count_words(pick.text) for pick in digest.picks) <= words
    assert {pick.text for pick in digest.picks} <= sentences
    assert len(picked) == len(set(picked))
    assert [pick.place for pick in digest.picks] == sorted(pick.place for pick in digest.picks)
    assert rehearse(requirements(*given_documents, words=words)) == results


@given(documents)
def test_no_draft_is_longer_than_asked(given_documents: list[Document]) -> None:
    subtasks = split(requirements(*given_documents))
    drafts = [write(subtask) for subtask in subtasks]
    for part, subtask in zip(gather(drafts), subtasks, strict=True):
        feedback = review(part)
        assert write(subtask, feedback).measure.used <= feedback.budget


def test_parts_are_balanced_and_cut_at_headings() -> None:
    subtasks = split(requirements(prose(400)))
    sizes = [sum(len(section.sentences) for section in subtask.sections) for subtask in subtasks]
    assert sizes == [40] * PARTS
    assert all(section.opens for subtask in subtasks for section in subtask.sections)


def test_three_sentences_are_all_quoted() -> None:
    text = "One cat sat on the mat. Two dogs ran far away. Three birds flew over the house."
    results = rehearse(requirements(Document(name="three.txt", text=text)))
    assert len(results) == PARTS
    assert render(results) == f"# The title\n\n{text}\n"


@pytest.mark.parametrize(
    "text", ["", "# Only a heading", "```\ncode\n```", "🙂🙂🙂", "- \n- \n", "Ingredients:"]
)
def test_nothing_to_quote_is_said(text: str) -> None:
    results = rehearse(requirements(Document(name="a.md", text=text)))
    assert render(results) == "# The title\n\nNo sentence was found that could be quoted.\n"


def test_text_without_spaces_works() -> None:
    # Characters in a row have nothing in common, so that no sentence repeats another.
    text = "".join(
        "".join(map(chr, range(0x4E00 + at * 16, 0x4E00 + at * 16 + 16))) + "。" for at in range(60)
    )
    digest = Digest.of(rehearse(requirements(Document(name="中文.md", text=f"# 故事\n\n{text}"), words=100)))
    assert len(digest.picks) >= 3
    assert count_words(digest.markdown) <= 100


def test_every_message_of_the_longest_text_is_small() -> None:
    document = Document(name="long.txt", text="Each of these sentences tells of an actor. " * 20_000)
    subtasks = split(requirements(document))
    drafts = [write(subtask) for subtask in subtasks]
    messages = [*subtasks, *drafts, *gather(drafts)]
    assert max(len(message.model_dump_json().encode()) for message in messages) < 120_000


def test_a_sentence_that_stands_in_two_files_is_quoted_once() -> None:
    copies = [Document(name=f"{name}.md", text=prose(30).text) for name in "abc"]
    digest = Digest.of(rehearse(requirements(*copies)))
    assert len({pick.text for pick in digest.picks}) == len(digest.picks) > 3


def test_documents_that_share_a_title_are_told_apart() -> None:
    text = "# Guide\n\nActors handle {} messages in order of their arrival.\n"
    pair = [Document(name=f"{name}.md", text=text.format(name)) for name in ("alpha", "beta")]
    titles = {section.document for subtask in split(requirements(*pair)) for section in subtask.sections}
    assert titles == {"Guide (alpha.md)", "Guide (beta.md)"}


def test_a_round_is_compiled_when_its_last_draft_is_there_whatever_came_first() -> None:
    drafts = [write(subtask) for subtask in split(requirements(prose(60)))]
    expected = gather(drafts)
    for order in (drafts[::-1], drafts[5:] + drafts[:5]):
        held = list(itertools.accumulate(order, collect, initial=collect([], order[0])))
        assert [len(gather(known)) for known in held[1:]] == [0] * (PARTS - 1) + [PARTS]
        assert gather(held[-1]) == expected


def test_a_draft_that_comes_again_counts_once() -> None:
    drafts = [write(subtask) for subtask in split(requirements(prose(60)))]
    held = collect(collect([], drafts[0]), drafts[0])
    assert held == [drafts[0]]


def test_the_reviewer_asks_for_less_and_for_missing_headings() -> None:
    subtasks = split(requirements(uneven()))
    feedback = [review(part) for part in gather([write(subtask) for subtask in subtasks])]
    assert {one.verdict for one in feedback} == {"shorter"}
    asked = feedback[0]
    assert asked.note == "26 words, 22 would do; nothing yet on “Aside 0”"
    draft = write(subtasks[asked.number - 1], asked)
    wanted = draft.headings[asked.cover[0]]
    assert (wanted.document, wanted.title) in {(pick.document, pick.heading) for pick in draft.picks}


def test_a_refused_sentence_does_not_come_back() -> None:
    subtask = split(requirements(prose(200)))[0]
    feedback = review(gather([write(one) for one in split(requirements(prose(200)))])[0])
    place = write(subtask, feedback).picks[0].place
    refused = feedback.model_copy(update={"drop": [place]})
    assert place not in [pick.place for pick in write(subtask, refused).picks]


measures = st.lists(
    st.integers(0, 60).flatmap(
        lambda available: st.builds(
            Measure,
            available=st.just(available),
            need=st.integers(0, available),
            used=st.integers(0, available),
            best=st.floats(0, 2),
            mass=st.floats(0, 6),
            next_words=st.integers(0, 30),
            next_score=st.floats(0, 2),
        )
    ),
    min_size=PARTS,
    max_size=PARTS,
)


@given(measures, st.integers(0, 500))
def test_no_more_words_are_shared_out_than_there_are(given_measures: list[Measure], target: int) -> None:
    budgets = allocate(given_measures, target)
    assert sum(budgets) <= target
    for budget, measure in zip(budgets, given_measures, strict=True):
        assert budget <= measure.available
        assert budget == 0 or budget >= measure.need
    used = sum(measure.used for measure in given_measures)
    assert sum(top_up(given_measures, max(target, used))) <= max(target, used)


def test_another_hash_seed_gives_the_same_digest(tmp_path: Path) -> None:
    path = tmp_path / "prose.md"
    path.write_text(prose(300).text, encoding="utf-8")
    script = (
        "import sys; from examples.digest.documents import prepare; from examples.digest.steps import rehearse\n"
        "for one in rehearse(prepare(sys.argv[1]).requirements('job')): print(one.model_dump_json())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script, str(path)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path.cwd())},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1
