"""Negative numbers as arguments."""

from __future__ import annotations

from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from callboard.cli.options import NumberCommand, unmarked


def told(*line: str) -> str:
    app = typer.Typer()

    @app.command(cls=NumberCommand)
    def main(words: list[str], by: Annotated[str, typer.Option()] = "") -> None:
        typer.echo(f"{unmarked(words)} {by}")

    result = CliRunner().invoke(app, line)
    return result.stdout.strip() if result.exit_code == 0 else f"exit {result.exit_code}"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (("8d0f", "-5"), "['8d0f', '-5']"),
        (("8d0f", ""), "['8d0f', '']"),
        (("8d0f", "--by", ""), "exit 2"),
        (("8d0f", "-.5", "--by", "ada"), "['8d0f', '-.5'] ada"),
        (("--by", "ada", "8d0f", "-1e3"), "['8d0f', '-1e3'] ada"),
        (("8d0f", "--", "-x"), "['8d0f', '-x']"),
        (("8d0f", "-x"), "exit 2"),
        (("8d0f", "--bye", "ada"), "exit 2"),
    ],
)
def test_a_negative_number_is_no_option(line: tuple[str, ...], shown: str) -> None:
    assert told(*line) == shown
