"""The table of commands: a new command is one new file and one line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from callboard.cli import commands
from callboard.cli.commands import COMMANDS, add_commands

GREET = '''
"""`callboard greet`: an example."""

import typer


def greet(name: str, loudly: bool = False) -> int:
    """Greet a person."""
    typer.echo(f"hello, {name}{'!' if loudly else ''}")
    return 0
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package for commands; what is imported from it is forgotten."""
    (tmp_path / "more_commands").mkdir()
    (tmp_path / "more_commands" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield "more_commands"
    for name in [name for name in sys.modules if name.startswith("more_commands")]:
        del sys.modules[name]


def test_every_module_is_in_the_table() -> None:
    folder = Path(commands.__file__).parent
    groups = {path.parent.name for path in folder.glob("*/__init__.py")}
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert set(COMMANDS.values()) == modules | groups


def test_a_command_is_a_file_and_a_line(package: str, tmp_path: Path) -> None:
    (tmp_path / package / "greet.py").write_text(GREET)
    (tmp_path / package / "shout.py").write_text(GREET.replace("def greet", "def shout"))
    app = typer.Typer()
    add_commands(app, {"greet": "greet", "shout": "shout"}, package)
    done = CliRunner().invoke(app, ["greet", "Ada", "--loudly"])
    assert (done.exit_code, done.output) == (0, "hello, Ada!\n")
    assert "Greet a person." in CliRunner().invoke(app, ["--help"]).output
