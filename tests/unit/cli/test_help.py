"""Every command explains itself, quickly."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from callboard.cli.command_line import command_line
from callboard.cli.options import help_of

GROUPS = ("runs", "schedules", "dead", "memory", "server")


def all_commands() -> list[str]:
    """The names of all commands, those in groups as `runs list`."""
    line: Any = typer.main.get_command(command_line())
    named = [(name, getattr(found, "commands", {})) for name, found in line.commands.items()]
    return [name for one, inner in named for name in ([f"{one} {each}" for each in inner] or [one])]


COMMANDS = all_commands()


def help_text(*words: str) -> str:
    done = CliRunner().invoke(command_line(), [*words, "--help"], prog_name="callboard")
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_a_sentence_and_an_example_on_a_line_of_its_own(command: str) -> None:
    text = help_text(*command.split())
    assert re.search(rf"^ {{4}}.*callboard {command}\b", text, re.MULTILINE), text
    assert re.search(r"^ {2}[A-Z][^\n]*(\n {2}[^\n]+)*\.$", text, re.MULTILINE), text


@pytest.mark.parametrize(
    "command",
    [
        *("ask", "status", "topics", "tail", "demo", "doctor", "repair", "dead list", "server status"),
        *("memory query", "memory stats", "runs list", "runs show", "runs follow", "schedules list"),
    ],
)
def test_commands_that_print_data_print_json(command: str) -> None:
    assert "--json" in help_text(*command.split())


def test_all_commands_are_listed() -> None:
    text = help_text()
    assert {"up", "runs answer", "server cli"} <= set(COMMANDS)
    for command in COMMANDS:
        assert re.search(rf"^ {{2}}{command.split()[0]} ", text, re.MULTILINE)


@pytest.mark.parametrize("words", [(), *((group,) for group in GROUPS)])
def test_a_list_of_commands_cuts_no_sentence(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert "..." not in help_text(*words).partition("Commands:")[2]


def test_the_package_runs_as_the_command_line() -> None:
    command = [sys.executable, "-m", "callboard", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: callboard ")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom callboard.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit: pass\n"
        "print([name for name in ('rich', 'redis', 'asyncio.subprocess', 'uvloop') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] in ("[]", "['asyncio.subprocess']")


def test_indented_paragraphs_keep_their_lines() -> None:
    def function() -> None:
        """One.

        Two
        lines.

          callboard one
          callboard two
        """

    assert help_of(function) == "One.\n\nTwo\nlines.\n\n\b\n  callboard one\n  callboard two"
