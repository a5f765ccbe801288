"""The board that `up` and `demo` show while processes run: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from .output import fitted, remark, say
from .pane import Pane

if TYPE_CHECKING:
    from callboard.broker.redis.operations.inspect import Overview
    from callboard.process.supervisor import Child

WINDOW = 5.0  # seconds over which a rate is measured


class Row(NamedTuple):
    """One agent type.

    Attributes:
        type: The agent type.
        up: Processes that run.
        wanted: Processes that should.
        waiting: Messages that wait; None: not known.
        running: Messages that handlers run.
        done: Messages handled.
        dead: Dead letters that are there now.
        died: Dead letters ever written.
        rate: Messages handled per second.
    """

    type: str
    up: int
    wanted: int
    waiting: int | None
    running: int
    done: int
    dead: int
    died: int
    rate: float


class Meter:
    """Makes rows of overviews; remembers a few seconds of them for the rates."""

    def __init__(self) -> None:
        self._past: deque[tuple[float, Mapping[str, int]]] = deque()

    def rows(self, view: Overview, children: Sequence[Child]) -> list[Row]:
        """One row per agent type that runs here."""
        by_type = {one.type: one for one in view.types}
        at = view.at / 1000
        self._past.append((at, {name: one.done for name, one in by_type.items()}))
        while len(self._past) > 2 and self._past[1][0] <= at - WINDOW:
            self._past.popleft()
        groups = dict.fromkeys(child.plan.group for child in children)
        return [
            self._row(name, view, [child for child in children if child.plan.group == name])
            for name in groups
        ]

    def _row(self, name: str, view: Overview, children: Sequence[Child]) -> Row:
        up = sum(any(child.has(worker.name) for worker in view.workers) for child in children)
        one = next((one for one in view.types if one.type == name), None)
        if one is None:
            return Row(name, up, len(children), 0, 0, 0, 0, 0, 0.0)
        rate = self._rate(name)
        return Row(name, up, len(children), one.waiting, one.running, one.done, one.dead, one.died, rate)

    def _rate(self, name: str) -> float:
        (since, before), (now, after) = self._past[0], self._past[-1]
        return (after[name] - before.get(name, 0)) / (now - since) if now > since else 0.0


class Board(Protocol):
    """The place where a run is shown; also the listener of its supervisor."""

    every: float

    def show(self, rows: Sequence[Row]) -> None:
        """Shows the present state."""
        ...

    def output(self, child: Child, line: str) -> None:
        """A line that a process wrote."""
        ...

    def notice(self, text: str) -> None:
        """Something that a person should know."""
        ...


class PlainBoard:
    """A line when something changed, at most one per second."""

    every = 1.0

    def __init__(self, write: Callable[[str], None] = say) -> None:
        self._write = write
        self._shown: dict[str, Row] = {}
        self._next = 0.0

    def show(self, rows: Sequence[Row]) -> None:
        """Prints the types that changed."""
        if time.monotonic() < self._next:
            return
        changed = [row for row in rows if self._shown.get(row.type, row._replace(up=-1))[:-1] != row[:-1]]
        if changed:
            self._next = time.monotonic() + self.every
            self._write(f"{time.strftime('%H:%M:%S')} {' | '.join(plain_row(row) for row in changed)}")
            self._shown.update({row.type: row for row in changed})

    def output(self, child: Child, line: str) -> None:
        """To stderr, with the name of the process in front."""
        remark(f"{child.plan.name} | {line}")

    def notice(self, text: str) -> None:
        """To stderr."""
        remark(f"callboard: {text}")


def plain_row(row: Row) -> str:
    """`counter 1/1 up, 0 waiting, 2 running, 17 done, 0 dead now, 0 dead ever, 3.4/s`."""
    waiting = "?" if row.waiting is None else row.waiting
    counts = f"{waiting} waiting, {row.running} running, {row.done} done"
    return f"{row.type} {row.up}/{row.wanted} up, {counts}, {row.dead} dead now, {row.died} dead ever, {row.rate:.1f}/s"


class LiveBoard:
    """A table that stays at the bottom of the terminal."""

    every = 0.25

    def __init__(self, pane: Pane) -> None:
        self._pane = pane
        self._rows: Sequence[Row] = ()

    def show(self, rows: Sequence[Row]) -> None:
        """Draws the table anew."""
        self._rows = rows
        self._draw()

    def output(self, child: Child, line: str) -> None:
        """Above the table, with the name of the process in front."""
        self._draw(f"{child.plan.name} | {line}")

    def notice(self, text: str) -> None:
        """Above the table."""
        self._draw(f"callboard: {text}")

    def _draw(self, *above: str) -> None:
        lines = table(self._rows, self._pane.size().columns) if self._rows else []
        self._pane.draw(lines, above)


DEAD_NOW: Final = "DEAD NOW"
COLUMNS: Final = ("TYPE", "PROCESSES", "WAITING", "RUNNING", "DONE", "RATE", DEAD_NOW, "DEAD EVER")
DROPPED: Final = ("DEAD EVER", "RATE", "PROCESSES", "DONE", DEAD_NOW)
"""Columns that a narrow terminal goes without, the first one first."""
RED, DIM, PLAIN = "\x1b[31m", "\x1b[2m", "\x1b[0m"


def table(rows: Sequence[Row], width: int) -> list[str]:
    """The rows as a table that is no wider than `width`: without its less important columns, or with two lines per row."""
    lines = fitted(COLUMNS, [_cells(row) for row in rows], width, DROPPED, numbers=COLUMNS[1:])
    if lines:
        return _coloured(lines, rows)
    return [
        line
        for row in rows
        for line in (row.type[:width], f"  {row.waiting} waiting"[:width], f"  {row.running} running"[:width])
    ]


def _cells(row: Row) -> tuple[str, ...]:
    waiting = "?" if row.waiting is None else f"{row.waiting:,}"
    counts = (
        waiting,
        f"{row.running:,}",
        f"{row.done:,}",
        f"{row.rate:,.1f}/s",
        f"{row.dead:,}",
        f"{row.died:,}",
    )
    return (row.type, f"{row.up}/{row.wanted}", *counts)


def _coloured(lines: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """The table with a dim header, and with dead letters in red where there are some."""
    header, *others = lines
    begin = header.find(DEAD_NOW)
    if os.environ.get("NO_COLOR"):
        return list(lines)
    coloured = [f"{DIM}{header}{PLAIN}"]
    for line, row in zip(others, rows, strict=True):
        end = begin + len(DEAD_NOW)
        is_red = begin >= 0 and row.dead > 0
        coloured.append(f"{line[:begin]}{RED}{line[begin:end]}{PLAIN}{line[end:]}" if is_red else line)
    return coloured


@contextlib.contextmanager
def board(*, to_stderr: bool = False) -> Iterator[Board]:
    """The board for this output: live on a terminal, else plain.

    Args:
        to_stderr: Stdout is used for other output.
    """
    if not (sys.stderr.isatty() and (to_stderr or sys.stdout.isatty())):
        yield PlainBoard(remark if to_stderr else say)
        return
    pane = Pane(sys.stderr)
    try:
        yield LiveBoard(pane)
    finally:
        pane.close()
