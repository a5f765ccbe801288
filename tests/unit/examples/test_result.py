"""The ten results as one text."""

import pytest

from examples.digest.errors import IncompleteDigestError
from examples.digest.messages import PARTS, Heading, Pick, Result
from examples.digest.result import Digest, render


def results(*picks: Pick, words: int = 350) -> list[Result]:
    """Ten results; the picks are spread over them in order."""
    headings = {(pick.document, pick.heading): None for pick in picks}
    return [
        Result(
            job="job",
            number=number,
            title="All",
            words=words,
            picks=list(picks[number - 1 : number]) if number < PARTS else list(picks[PARTS - 1 :]),
            headings=[Heading(document=one, title=two, words=9) for one, two in headings]
            if number == 1
            else [],
            verdicts=["fine", "fine"],
            source_words=10,
        )
        for number in range(1, PARTS + 1)
    ]


def pick(place: int, document: str, heading: str, text: str, score: float = 1.0) -> Pick:
    return Pick(place=place, document=document, heading=heading, text=text, score=score)


def test_headings_stand_above_their_sentences_once() -> None:
    text = render(
        results(
            pick(0, "One", "", "It is."),
            pick(1, "One", "Use", "It runs."),
            pick(2, "One", "Use", "It stops"),
            pick(3, "Two", "", "It ends."),
        )
    )
    assert text == "# All\n\n## One\n\nIt is.\n\n### Use\n\nIt runs. It stops.\n\n## Two\n\nIt ends.\n"


def test_a_single_document_needs_no_heading_of_its_own() -> None:
    assert render(results(pick(0, "One", "", "It is."), pick(1, "One", "Use", "It runs."))) == (
        "# All\n\nIt is.\n\n## Use\n\nIt runs.\n"
    )


def test_the_order_of_arrival_does_not_matter() -> None:
    ten = results(pick(0, "One", "", "It is."), pick(1, "One", "", "It runs."))
    assert Digest.of(reversed(ten)) == Digest.of([*ten, ten[0]])


def test_a_missing_result_is_named() -> None:
    with pytest.raises(IncompleteDigestError, match=r"missing: 3, 7\.") as caught:
        render([one for one in results() if one.number not in (3, 7)])
    assert caught.value.missing == (3, 7)


def test_the_weakest_sentences_go_when_it_is_too_long() -> None:
    picks = [
        pick(at, "One", "", f"Sentence {at} " + "has many words " * 5 + "indeed.", at / 9) for at in range(10)
    ]
    digest = Digest.of(results(*picks, words=60))
    assert "Sentence 9" in digest.markdown
    assert "Sentence 0" not in digest.markdown
    assert len(digest.markdown.split()) <= 60


def test_a_digest_counts_what_it_covers() -> None:
    digest = Digest.of(results(pick(0, "One", "", "It is."), pick(1, "One", "Use", "It runs.")))
    assert (digest.covered, len(digest.headings), digest.source_words) == (2, 2, 100)
