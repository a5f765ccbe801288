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
from callboard.cli.commands import COMMANDS

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


def lines() -> Iterator[tuple[str, list[str]]]:
    """Where, and the words of each command that `shell_line` makes; X for what is put in when it is said."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "shell_line":
                words = [str(one.value) if isinstance(one, ast.Constant) else "X" for one in node.args]
                yield f"{path.relative_to(ROOT)}:{node.lineno}", words


def advised() -> list[tuple[str, list[str]]]:
    found = [(where, words[1:]) for where, words in lines() if words[0] == "callboard"]
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
    if "X" in plain[: 1 + (plain[:1] == ["dead"])]:  # the name is put in when it is said
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


# What others have chosen is quoted in it: only shell_line() puts anything into a command.

PUT_IN = "\N{WHITE SQUARE}"  # where a template has a name, a text or a number put in
PROGRAMS = ("redis-cli", "ACL SETUSER", *(f"callboard {name}" for name in COMMANDS))
OFFERED = re.compile(
    rf"(?<![\w.-])(?:{'|'.join(PROGRAMS)})(?![\w-])(?:[^`\n;:,(]|[:,;(](?! ))*|{PUT_IN}callboard "
)
NOTHING_TO_QUOTE = {
    "callboard/cli/templates.py",  # the README of a new app, whose name `init` has made of a-z, 0-9, - and _
}


def templates(source: str) -> Iterator[tuple[int, str]]:
    """The line, and the text, of each f-string and of each text for `format` or `%`, docstrings apart."""
    tree = ast.parse(source)
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    docs |= {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in docs:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, re.sub(r"\{[\w.!:]+\}|%[sdr]", PUT_IN, node.value)
        elif isinstance(node, ast.JoinedStr):
            parts = (str(one.value) if isinstance(one, ast.Constant) else PUT_IN for one in node.values)
            yield node.lineno, "".join(parts)


def unquoted(source: str) -> list[tuple[int, str]]:
    """The commands of a source that have something put into them by another way than shell_line()."""
    return [
        (line, found[0])
        for line, text in templates(source)
        for found in OFFERED.finditer(text)
        if PUT_IN in found[0]
    ]


def test_nothing_is_put_into_a_command_but_by_shell_line() -> None:
    wrong = {
        name: found
        for path in SOURCES
        if (name := str(path.relative_to(ROOT))) not in NOTHING_TO_QUOTE
        and (found := unquoted(path.read_text("utf-8")))
    }
    assert wrong == {}


def test_no_advice_reaches_another_server_or_none() -> None:
    """redis-cli takes the one on port 6379; `callboard server cli` the embedded one, or that of a URL."""
    wrong = [
        (path.name, text)
        for path in SOURCES
        for _, text in templates(path.read_text("utf-8"))
        if re.search(r"redis-cli (-|[A-Z]{2})", text)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "source",
    [
        'do = f"callboard resume --namespace {namespace} {words}"',
        'do = f"more processes: callboard up module:app --processes {type}=4; or look"',
        'log("it is a dead letter now: callboard dead show --namespace %s %s", a, b)',
        'template = "see `callboard dead show {role}`"',
        'say(f"  cli  redis-cli -s {path}")',
        'do = "callboard resume %s" % name',
    ],
)
def test_a_command_with_something_put_in_is_noticed(source: str) -> None:
    assert unquoted(source)


@pytest.mark.parametrize(
    "source",
    [
        'do = f"{name}: see `callboard status`, and {name} again"',
        'do = f"{shell_line(*words)}; or see what fails: callboard dead list"',
        'what = f"the user {user} may not run {some}"',
    ],
)
def test_what_is_put_in_beside_a_command_is_not_meant(source: str) -> None:
    assert not unquoted(source)


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
