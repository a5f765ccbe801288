"""What the model of the digest job is asked, and what becomes of its answers."""

from __future__ import annotations

import pytest

from callboard.models import Price
from examples.digest.messages import Draft, Feedback, Measure, Pick
from examples.digest.model import ModelChoice, price_from
from examples.digest.wording import LONGEST_NOTE, annotated, ask_reviewer, ask_writer, reworded

SENTENCES = ("The worker commits the stream.", "Nothing is ever handled twice in effect.")


def draft() -> Draft:
    picks = [
        Pick(place=at, document="D", heading="H", text=text, score=1.0) for at, text in enumerate(SENTENCES)
    ]
    return Draft(
        job="job", number=1, round=1, title="T", words=350, target=300, picks=picks, headings=[],
        measure=Measure(used=13), source_words=50,
    )  # fmt: skip


def feedback() -> Feedback:
    return Feedback(
        job="job", number=1, round=1, verdict="fine", note="12 words, fine", budget=9, cover=[], drop=[]
    )


@pytest.mark.parametrize(
    ("answer", "texts", "used"),
    [
        pytest.param("1. It commits.\n2. Nothing twice.", ("It commits.", "Nothing twice."), 5, id="both"),
        pytest.param(
            "Sure!\n\n**2)** Nothing twice.\n", (SENTENCES[0], "Nothing twice."), 8, id="with markup"
        ),
        pytest.param(" - 2) Nothing twice. ", (SENTENCES[0], "Nothing twice."), 8, id="one, as a list"),
        pytest.param("1. " + "far too long " * 3, SENTENCES, 13, id="longer than the sentence"),
        pytest.param("1. …\n2. ---", SENTENCES, 13, id="no words"),
        pytest.param("3. Who asked?", SENTENCES, 13, id="another number"),
        pytest.param("", SENTENCES, 13, id="nothing"),
    ],
)
def test_a_line_that_can_be_used_replaces_its_sentence(
    answer: str, texts: tuple[str, ...], used: int
) -> None:
    told = reworded(draft(), answer)
    assert tuple(pick.text for pick in told.picks) == texts
    assert told.measure.used == used
    assert [pick.place for pick in told.picks] == [0, 1]


def test_the_writer_sees_the_sentences_and_what_was_said_about_them() -> None:
    numbered = f"1. {SENTENCES[0]}\n2. {SENTENCES[1]}"
    assert ask_writer(draft(), None)[1].content == numbered
    said = str(ask_writer(draft(), feedback())[1].content)
    assert said.startswith(numbered)
    assert said.endswith("12 words, fine")
    assert ask_reviewer(draft())[1].content == numbered


def test_a_remark_changes_the_note_and_no_demand() -> None:
    told = annotated(feedback(), " Use\nshorter words. ")
    assert told == feedback().model_copy(update={"note": "12 words, fine. Use shorter words."})
    assert annotated(feedback(), "  ") == feedback()
    assert len(annotated(feedback(), "a" * 1000).note) == len("12 words, fine. ") + LONGEST_NOTE


@pytest.mark.parametrize(
    "choice", [ModelChoice("m"), ModelChoice("m", 500), ModelChoice("m", None, Price(0.15, 0.6))]
)
def test_a_choice_reaches_other_processes(choice: ModelChoice) -> None:
    assert ModelChoice.from_environ(choice.environ) == choice


def test_an_environment_without_a_model() -> None:
    assert ModelChoice.from_environ({}) is None
    assert ModelChoice.from_environ({"DIGEST_MODEL": "", "DIGEST_TOKENS": "5"}) is None


@pytest.mark.parametrize("text", ["", "1", "1/", "x/y", "1/2/3", "-1/2", "1/nan", "inf/1"])
def test_what_is_no_price(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        price_from(text)
