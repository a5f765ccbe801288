"""Reads the code blocks of a Markdown page, and compares what a command printed with what the page says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w*)$")
NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
FILE_NAME = re.compile(r"^# ([\w/]+\.\w+)$")
ENTRY = r"\d{13}-\d+"
WORKER = r"laptop:4711:k3x0p9qa:1"
LANGUAGES = ("python", "console", "text", "lua", "mermaid", "yaml", "ini", "dockerfile", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block.

    Attributes:
        page: the file it is in.
        line: number of its first line of text.
        language: what stands behind the fence.
        text: what is in it.
        not_run: why a test leaves it out, or "".
    """

    page: Path
    line: int
    language: str
    text: str
    not_run: str

    @property
    def file_name(self) -> str:
        """The file that the block is, by its first line (`# name.py`), or ""."""
        found = FILE_NAME.match(self.text.partition("\n")[0])
        return found[1] if found else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A line that begins with `$ `, and what it is said to print. `line` counts from 1 in the page."""

    text: str
    line: int
    expected: tuple[str, ...]


def blocks_of(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    lines = page.read_text("utf-8").splitlines()
    opened: tuple[int, str, str] | None = None
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if fence is None:
            continue
        if opened is None:
            before = NOT_RUN.match(lines[number - 1]) if number else None
            opened = number, fence[1], before[1] if before else ""
            continue
        start, language, not_run = opened
        text = "\n".join(lines[start + 1 : number])
        yield Block(page=page, line=start + 2, language=language, text=text, not_run=not_run)
        opened = None
    assert opened is None, f"{page}: a code block is not closed"


def commands_of(block: Block) -> list[Command]:
    """The commands of a console block. `^C` is one, too: it ends what runs."""
    commands: list[Command] = []
    for number, line in enumerate(block.text.splitlines()):
        if line.startswith("$ "):
            commands.append(Command(text=line[2:].strip(), line=block.line + number, expected=()))
        elif line == "^C":
            commands.append(Command(text=line, line=block.line + number, expected=()))
        else:
            assert commands, f"{block.page}:{block.line + number}: output without a command"
            last = commands[-1]
            commands[-1] = Command(text=last.text, line=last.line, expected=(*last.expected, line))
    return commands


def matches(expected: tuple[str, ...], printed: str) -> bool:
    """Whether a command printed what the page says.

    `...` stands for anything, on a line of its own for any number of lines; entry ids and the worker
    `laptop:4711:k3x0p9qa:1` for any of their kind. How much space is between words does not count.
    """
    pattern = "".join(_line_pattern(_squeeze(line)) for line in expected)
    lines = "".join(f"{_squeeze(line)}\n" for line in printed.splitlines())
    return re.fullmatch(pattern, lines) is not None


def _squeeze(line: str) -> str:
    return " ".join(line.split())


def _line_pattern(line: str) -> str:
    if line == "...":
        return r"(?:.*\n)*?"
    escaped = re.escape(line).replace(re.escape("..."), ".*").replace(re.escape(WORKER), r"\S+:\d+:\w{8}:\d+")
    return re.sub(r"\d{13}\\-\d+", lambda _: ENTRY, escaped) + r"\n"
