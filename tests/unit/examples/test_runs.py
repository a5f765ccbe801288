"""The samples of the RFC."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.runs import ConsoleProcessor, process_run_response
from examples.runs import comedians, complaints, lesson_plans, single_agent, with_functions

SAMPLES: dict[str, tuple[Any, list[str], str]] = {
    "single agent": (single_agent.begin, ["Alice", "Alice"], "42"),
    "with functions": (with_functions.begin, ["Alice", "Alice"], "42"),
    "comedians": (comedians.begin, ["Jack", "Emma", "Jack", "Emma"], "FINISH"),
    "complaints": (complaints.begin, ["complaints_agent"], complaints.APOLOGY),
    **{
        f"lesson plans by {form}": (
            begin,
            ["planner_agent", "reviewer_agent", *again, "teacher_agent"],
            "The first lesson is submitted. DONE!",
        )
        for (form, begin), again in zip(
            lesson_plans.FORMS.items(), (["planner_agent"], ["planner_agent"], []), strict=True
        )
    },
}


@pytest.fixture(autouse=True)
def no_model_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_runs(sample: str, capsys: pytest.CaptureFixture[str]) -> None:
    begin, speakers, summary = SAMPLES[sample]
    response = begin()
    process_run_response(response, ConsoleProcessor(ask=lambda prompt: "My order was late."))
    assert [message["sender"] for message in response.messages] == ["user", *speakers]
    assert response.summary == summary
    assert ("My order was late." in capsys.readouterr().out) == (sample == "complaints")
