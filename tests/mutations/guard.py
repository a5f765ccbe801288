"""Guards: statements that keep the promise, marked in the source by a comment that says what they keep.

    -- guard: a busy agent is given to nobody else
    if not busy[i] then

The comment stands on a line of its own, right before the statement. It is what a mutation names, so that the statement
may move to another function or file, or be written in another way, and its mutation still finds it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCES = "callboard"
MARK = re.compile(r"^ *(?:--|#) guard: (?P<name>\S.*\S)$")
# A line at the indentation of a statement that belongs to it all the same; the first kind ends it.
LAST = re.compile(r"(?:end\b|[)\]}])")
MIDDLE = re.compile(r"(?:else|elseif|elif|except|finally)\b")


class Guard(NamedTuple):
    """One guarded statement.

    Attributes:
        name: what the comment says.
        path: the file, absolute.
        first, after: its first line, and the line after its last one, both from 0.
    """

    name: str
    path: Path
    first: int
    after: int

    @property
    def is_lua(self) -> bool:
        return self.path.suffix == ".lua"

    @property
    def statement(self) -> str:
        """Its text, with the indentation that it has in the file."""
        return "".join(_lines(self.path)[self.first : self.after])

    def text_with(self, statement: str) -> str:
        """The text of the file with another statement in its place."""
        lines = _lines(self.path)
        return "".join([*lines[: self.first], statement, *lines[self.after :]])


def guards(root: Path) -> Iterator[Guard]:
    """All guards of the package under `root`."""
    for path in sorted((root / SOURCES).rglob("*")):
        if path.suffix in (".lua", ".py"):
            yield from _guards_of(path)


def _guards_of(path: Path) -> Iterator[Guard]:
    if " guard: " not in path.read_text("utf-8"):
        return
    lines = _lines(path)
    for i, line in enumerate(lines):
        mark = MARK.match(line.rstrip("\n"))
        if mark:
            yield Guard(mark["name"], path, i + 1, _end(lines, i + 1))


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines(keepends=True)


def _end(lines: list[str], first: int) -> int:
    """The line after a statement: it goes on while lines are indented deeper, and with what closes it."""
    indent = _indent(lines[first])
    for i in range(first + 1, len(lines)):
        text = lines[i].strip()
        if not text or _indent(lines[i]) > indent:
            continue
        if _indent(lines[i]) == indent and LAST.match(text):
            return i + 1
        if _indent(lines[i]) < indent or not MIDDLE.match(text):
            return i
    return len(lines)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
