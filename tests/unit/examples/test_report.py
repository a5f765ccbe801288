"""The report of `callboard demo` on a run."""

from __future__ import annotations

from dataclasses import replace

from callboard.models import Spent
from examples.digest.report import EXPECTED, ROLES, Report, TypeReport, lines_of, looks


def report() -> Report:
    types = tuple(
        TypeReport(
            type=name, role=ROLES[name], processes=1, handled=count, expected=count, retries=0, seconds=1.5
        )
        for name, count in EXPECTED.items()
    )
    return Report(
        namespace="demo", digest="# D\n", types=types, results=10, pending=0, dead=0, killed=(), seconds=2.0
    )


def test_exact_counts() -> None:
    assert report().problems == []
    assert report().as_data()["exact"] is True
    lines = lines_of(report(), "callboard server cli")
    assert lines[0].split()[:2] == ["AGENT", "TYPE"]
    assert "10 results, 0 pending, 0 dead, in 2.0 s: every count is exact." in lines
    assert "  callboard server cli XINFO GROUPS 'callboard:{demo}:topic:subtasks'" in lines


def test_everything_that_is_wrong_is_named() -> None:
    first, *rest = report().types
    wrong = replace(
        report(), types=(replace(first, handled=2), *rest), results=9, pending=1, dead=3, killed=(7,)
    )
    assert wrong.problems == [
        "splitter handled 2 messages instead of 1",
        "there are 9 results instead of 10",
        "1 messages are pending",
        "there are 3 dead letters",
    ]
    assert any("worker process 7 was killed with -9" in line for line in lines_of(wrong, "callboard"))


def test_tokens_and_costs_are_said() -> None:
    spent = Spent(40, 280, 1_200, 0.0052)
    paid = replace(report(), model="small", spent=spent)
    said = "small: 40 answers, 280 tokens read, 1,200 written, "
    assert f"{said}0.0052 USD." in lines_of(paid, "callboard")
    unpriced = replace(paid, spent=replace(spent, usd=0.0, unpriced=40))
    assert f"{said}no price is known (--price)." in lines_of(unpriced, "callboard")


def test_commands_can_be_pasted() -> None:
    assert looks("demo")[3] == "XREVRANGE 'callboard:{demo}:topic:feedback' + - COUNT 1"
