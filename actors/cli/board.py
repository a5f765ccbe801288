"""The board that `up` and `demo` show while processes run: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .output import remark, say

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

    from callboard.broker.redis.operations.inspect import Overview
    from callboard.process.supervisor import Child

WINDOW = 5.0  # seconds over which a rate is measured


class Row(NamedTuple):
    """One agent type.

    Attributes:
        type: The agent type.
        up: Processes that run.
        wanted: Processes that should.
        queued: Messages that wait; None: not known.
        running: Agents that workers hold.
        done: Messages handled.
        failed: Messages that became dead letters.
        rate: Messages handled per second.
    """

    type: str
    up: int
    wanted: int
    queued: int | None
    running: int
    done: int
    failed: int
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
            return Row(name, up, len(children), 0, 0, 0, 0, 0.0)
        rate = self._rate(name)
        return Row(name, up, len(children), one.queued, one.running, one.done, one.died, rate)

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
    """`counter 1/1 up, 0 queued, 2 running, 17 done, 0 failed, 3.4/s`."""
    queued = "?" if row.queued is None else row.queued
    counts = f"{queued} queued, {row.running} running, {row.done} done, {row.failed} failed"
    return f"{row.type} {row.up}/{row.wanted} up, {counts}, {row.rate:.1f}/s"


class LiveBoard:
    """A table that stays at the bottom of the terminal."""

    every = 0.25

    def __init__(self, live: Live, console: Console) -> None:
        self._live = live
        self._console = console

    def show(self, rows: Sequence[Row]) -> None:
        """Draws the table anew."""
        self._live.update(_table(rows), refresh=True)

    def output(self, child: Child, line: str) -> None:
        """Above the table, with the name of the process in front."""
        self._console.print(f"{child.plan.name} | {line}", markup=False, highlight=False, soft_wrap=True)

    def notice(self, text: str) -> None:
        """Above the table."""
        self._console.print(f"callboard: {text}", markup=False, highlight=False, soft_wrap=True)


def _table(rows: Sequence[Row]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("TYPE")
    for name in ("PROCESSES", "QUEUED", "RUNNING", "DONE", "FAILED", "RATE"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row.type,
            f"{row.up}/{row.wanted}",
            "?" if row.queued is None else f"{row.queued:,}",
            f"{row.running:,}",
            f"{row.done:,}",
            f"[red]{row.failed:,}[/red]" if row.failed else "0",
            f"{row.rate:,.1f}/s",
        )
    return table


@contextlib.contextmanager
def board(*, to_stderr: bool = False) -> Iterator[Board]:
    """The board for this output: live on a terminal, else plain.

    Args:
        to_stderr: Stdout is used for other output.
    """
    if not (sys.stderr.isatty() and (to_stderr or sys.stdout.isatty())):
        yield PlainBoard(remark if to_stderr else say)
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    # Redirecting would send our own plain lines through the table's console a second time.
    with Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        yield LiveBoard(live, console)
