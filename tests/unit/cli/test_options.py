"""Values that several options share."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from callboard.broker import BrokerSettings
from callboard.cli.command_line import command_line
from callboard.cli.commands import COMMANDS
from callboard.cli.options import NamingCommand, duration, positive_duration, split_names
from callboard.cli.sessions import worker_options


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("90", 90), ("0.5", 0.5), ("0", 0), ("90s", 90), ("500ms", 0.5), ("10m", 600), ("10min", 600)),
        *(("1h", 3600), ("1h30m", 5400), ("2d", 172_800), ("1.5h", 5400), ("1h 30m", 5400), ("1H", 3600)),
    ],
)
def test_a_duration_is_a_number_with_units_or_seconds(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["soon", "", "-1", "1h30", "nan", "inf", "h", "1 fortnight"])
def test_anything_else_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="write 90s, 1h30m, 2d or 500ms"):
        duration(text)


def test_some_durations_have_to_be_longer_than_nothing() -> None:
    assert positive_duration("1ms") == 0.001
    with pytest.raises(typer.BadParameter, match="longer than 0"):
        positive_duration("0s")


def test_workers_are_told_to_debug_when_their_supervisor_is(caplog: pytest.LogCaptureFixture) -> None:
    assert "--debug" not in worker_options(BrokerSettings())
    caplog.set_level(logging.DEBUG)
    assert "--debug" in worker_options(BrokerSettings())


@pytest.mark.parametrize(
    ("names", "target", "rest"),
    [
        ([], None, []),
        (["counting:app", "counter"], "counting:app", ["counter"]),
        (["counting.py:app"], "counting.py:app", []),
        (["./counting.py:app"], "./counting.py:app", []),
        (["basket/user:42"], None, ["basket/user:42"]),
        (["basket/topic:items:1763700000000-0"], None, ["basket/topic:items:1763700000000-0"]),
        (["counting:app", "basket/user:42"], "counting:app", ["basket/user:42"]),
    ],
)
def test_a_colon_behind_a_slash_is_no_apps(names: list[str], target: str | None, rest: list[str]) -> None:
    assert split_names(names) == (target, rest)


def leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that has no commands of its own, with the words that call it."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield words, command
    for name, one in (inner or {}).items():
        yield from leaves(one, (*words, name))


FREE = [("server", "cli")]  # what is behind them is Redis' own


def test_every_command_refuses_texts_that_are_empty() -> None:
    found = dict(leaves(typer.main.get_command(command_line())))
    assert {words[0] for words in found} == set(COMMANDS)
    assert [words for words, command in found.items() if not isinstance(command, NamingCommand)] == FREE


@pytest.mark.parametrize(
    "line",
    [
        ("runs", "fork", "x:app", "run", "--conversation", ""),
        ("runs", "fork", "x:app", "run", "--conversation="),
        ("runs", "cancel", "--namespace", "shop", ""),
        ("runs", "answer", "--namespace", "", "8d0f", "yes"),
        ("status", "--url", ""),
        ("worker", "x:app", "--type", ""),
        ("publish", "x:app", "visits", "Visit", "--key", ""),
        ("pause", "x:app", ""),
        ("acl", "publisher", "--namespace", ""),
    ],
    ids=" ".join,
)
def test_an_empty_name_is_refused_before_anything_is_done(line: tuple[str, ...]) -> None:
    done = CliRunner().invoke(command_line(), line)
    assert done.exit_code == 2
    assert "it is empty: give a value" in " ".join(done.output.split())
