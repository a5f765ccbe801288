"""`scripts/bench cost`: what a message costs."""

from __future__ import annotations

import re

import pytest

from scripts.benchmarks import cost
from scripts.benchmarks.site import ROOT


def test_it_measures_and_compares(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cost.COUNTS, "relay", 2_000)
    arguments = ["--only", "relay", "--quick", "--rounds", "1", "--against", str(ROOT)]
    assert cost.main(arguments) == 0
    _, python, server = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"relay +python +[\d.]+ +[\d.]+ +[\d.]+ \([\d.]+ to [\d.]+\)", python)
    assert server.startswith("relay        server")


def test_it_measures_over_topics(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for way in cost.OVER_TOPICS:
        monkeypatch.setitem(cost.COUNTS, way, 2_000)
    assert cost.main(["--topics", "3", "--quick", "--rounds", "1"]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        [f"{way}/3", spender] for way in cost.OVER_TOPICS for spender in cost.SPENDERS
    ]
    with pytest.raises(SystemExit):
        cost.main(["--topics", "3", "--only", "ask"])


@pytest.mark.parametrize("words", ["--topics 0", "--topics -3", "--rounds 0", "--against /nowhere"])
def test_what_can_not_be_measured_is_refused(capsys: pytest.CaptureFixture[str], words: str) -> None:
    with pytest.raises(SystemExit):
        cost.main(words.split())
    assert f"error: argument {words.split(maxsplit=1)[0]}" in capsys.readouterr().err


def test_the_ratio_is_the_median_of_the_rounds() -> None:
    rounds = [
        cost.Round({"python": mine}, {"python": others}) for mine, others in ((2, 1), (30, 10), (80, 20))
    ]
    assert cost._line("ask", "python", rounds).split()[2:] == ["30.0", "10.0", "3.00", "(2.00", "to", "4.00)"]
    assert cost._line("ask", "python", [cost.Round({"python": 2.0}, None)]).split()[2:] == ["2.0"]
