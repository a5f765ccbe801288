"""docs/reliability.md tells of every fault and of every figure."""

from __future__ import annotations

from scripts.chaos_suite.checker import RULES
from scripts.chaos_suite.faults import all_faults
from tests.helpers.processes import ROOT

PAGE = (ROOT / "docs" / "reliability.md").read_text("utf-8")


def test_every_fault_is_described_as_it_describes_itself() -> None:
    missing = [
        name
        for name, cls in all_faults().items()
        if f"| `{name}` | {cls.summary} | {cls.promise} |" not in PAGE
    ]
    assert missing == []


def test_every_figure_is_a_row() -> None:
    figures = {figure for cls in all_faults().values() for figure in cls.figures}
    assert [figure.what for figure in figures if f"| {figure.what} | <= " not in PAGE] == []


def test_every_rule_is_explained() -> None:
    assert [rule for rule in RULES if rule not in PAGE] == []
