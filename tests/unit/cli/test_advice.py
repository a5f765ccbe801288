"""Every command that a help text, an error or a page tells people to run exists, with the options that it is shown with."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from callboard.cli.command_line import command_line

ROOT = Path(__file__).parents[3]
SOURCES = sorted((ROOT / "callboard").rglob("*.py"))
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
COMMAND = re.compile(r"`callboard ([^`\n]+)`|^\s*(?:\$ )?callboard ([a-z][^\n|>]*)", re.MULTILINE)
EVERYWHERE = {"--debug", "--help", "-h", "--version"}


def commands() -> dict[str, set[str]]:
    """The options of each command."""
    found: dict[str, set[str]] = {}
    root: Any = typer.main.get_command(command_line())
    for name, one in root.commands.items():
        for full, each in [
            (name, one),
            *((f"{name} {n}", sub) for n, sub in getattr(one, "commands", {}).items()),
        ]:
            found[full] = {text for param in each.params for text in (*param.opts, *param.secondary_opts)}
    return found


KNOWN = commands()


def texts() -> Iterator[tuple[str, str]]:
    """Where, and what is said there: the strings of our sources, and the pages."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value
            elif isinstance(node, ast.JoinedStr):
                parts = (one.value if isinstance(one, ast.Constant) else "X" for one in node.values)
                yield f"{path.relative_to(ROOT)}:{node.lineno}", "".join(map(str, parts))
    for path in PAGES:
        yield path.name, path.read_text("utf-8")


def advised() -> list[tuple[str, list[str]]]:
    found = []
    for where, text in texts():
        for match in COMMAND.finditer(text):
            line = (match[1] or match[2]).split(" #")[0].split(" && ")[0].split(" 2>")[0]
            try:
                words = shlex.split(line)
            except ValueError:  # a quotation mark that ends elsewhere
                words = line.split()
            found.append((where, words))
    return found


def problem(words: list[str]) -> str:
    plain = [word for word in words if not word.startswith("-")]
    if plain[:1] == ["X"]:  # the name is put in when it is said
        return ""
    name = " ".join(plain[:2]) if " ".join(plain[:2]) in KNOWN else " ".join(plain[:1])
    if not plain:
        return "" if set(words) <= EVERYWHERE else f"no command has {words}"
    if name not in KNOWN:
        return f"there is no command {name!r}"
    options = {word.split("=")[0].rstrip(".,;:") for word in words if re.match(r"--?[a-z]", word)}
    wrong = options - KNOWN[name] - EVERYWHERE
    if name.startswith("server cli"):  # what redis-cli knows
        return ""
    return f"callboard {name} has no {', '.join(sorted(wrong))}" if wrong else ""


def test_there_is_advice_to_look_at() -> None:
    assert len(advised()) > 100


def test_what_people_are_told_to_run_exists() -> None:
    wrong = [f"{where}: {found}" for where, words in advised() if (found := problem(words))]
    assert wrong == []


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["dead", "show", "--all"], "callboard dead show has no --all"),
        (["statsu"], "there is no command 'statsu'"),
        (["dead", "replay", "a", "--all"], ""),
        (["--version"], ""),
    ],
)
def test_what_does_not_exist_is_noticed(words: list[str], found: str) -> None:
    assert problem(words) == found
