"""Printing: aligned columns, JSON, values for people, and a progress bar."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TextIO

from callboard.foundation import ActorError
from callboard.foundation.texts import one_line, printable
from callboard.process.printer import CATCH_UP, Outlet

LOOK_EVERY = 0.02  # seconds between two looks at whether a slow reader has read

USUAL_WIDTH: Final = 80  # characters in a line of a terminal that does not say


class OutputClosedError(ActorError):
    """The reader of the output is gone, as the other end of a pipe may be."""


def say(line: str = "") -> None:
    """One line on stdout, at once, so that a pipe sees it; control characters are escaped as JSON escapes them.

    Raises:
        OutputClosedError: Its reader is gone.
    """
    try:
        print(printable(line), flush=True)
    except OSError as error:
        # A pipe without its reader, or a terminal that was closed. typer would make exit code 1 of the first.
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        raise OutputClosedError from error


class PatientPrinter:
    """Prints lines on stdout and waits until their reader has taken them, while the event loop still sees Ctrl-C."""

    def __init__(self) -> None:
        self._outlet = Outlet(sys.stdout.fileno())

    async def say(self, line: str) -> None:
        """One line; returns when it is written.

        Raises:
            OutputClosedError: Its reader is gone.
        """
        self._outlet.put(f"{printable(line)}\n".encode(sys.stdout.encoding, "backslashreplace"))
        self._outlet.settle(CATCH_UP)
        while self._outlet.is_busy:  # noqa: ASYNC110 - a thread writes, and has no event of this loop
            await asyncio.sleep(LOOK_EVERY)
        if self._outlet.is_closed:
            raise OutputClosedError


def remark(line: str) -> None:
    """One line on stderr, for everything that is not data."""
    print(printable(line), file=sys.stderr, flush=True)


def hint(sentence: str) -> None:
    """A sentence for people while a command goes on, on stderr."""
    for line in wrapped(f"callboard: {sentence}", terminal_width(sys.stderr), indent="  "):
        remark(line)


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """A value as JSON; what JSON lacks becomes text."""
    say(to_json(value, indent=indent))


def to_json(value: Any, *, indent: int | None = None) -> str:
    """A message, a model or plain data as JSON."""
    return json.dumps(plain(value), indent=indent, ensure_ascii=False, default=str)


def plain(value: Any) -> Any:
    """Models, dataclasses and bytes as what JSON has; bytes that are no text as base64."""
    import pydantic_core

    try:
        return pydantic_core.to_jsonable_python(value, fallback=str)
    except (ValueError, pydantic_core.PydanticSerializationError):
        return pydantic_core.to_jsonable_python(value, fallback=str, bytes_mode="base64")


def columns(
    header: Sequence[str],
    rows: Iterable[Sequence[Any]],
    width: int | None = None,
    optional: Sequence[str] = (),
) -> list[str]:
    """Lines of a table: numbers to the right, the rest to the left. Where it is too wide, each row is a block of lines.

    Args:
        header: One name per column.
        rows: Values; None is shown as `-`.
        width: Characters in a line at most; None: as many as it takes.
        optional: Columns that a narrow table goes without, the first one first. Blocks have all of them.
    """
    listed = [list(row) for row in rows]
    lines = fitted(header, listed, width, optional)
    return lines or [
        line for row in listed for line in _block(header, [_cell(value) for value in row], width or 0)
    ]


def fitted(
    header: Sequence[str],
    rows: Sequence[Sequence[Any]],
    width: int | None,
    optional: Sequence[str] = (),
    numbers: Collection[str] = (),
) -> list[str]:
    """The lines of a table that is no wider than `width`; none, if it can't be.

    Args:
        header: One name per column.
        rows: Values; None is shown as `-`.
        width: Characters in a line at most; None: as many as it takes.
        optional: Columns that a narrow table goes without, the first one first.
        numbers: Columns that go to the right whatever they hold.
    """
    for dropped in range(len(optional) + 1):
        chosen = [i for i, name in enumerate(header) if name not in optional[:dropped]]
        names = [header[i] for i in chosen]
        lines = _aligned(names, [[row[i] for i in chosen] for row in rows], numbers)
        if width is None or max(map(len, lines)) <= width:
            return lines
    return []


def _aligned(header: Sequence[str], rows: Sequence[Sequence[Any]], numbers: Collection[str]) -> list[str]:
    table = [list(header), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    right = [
        name in numbers or (rows and all(isinstance(row[i], int | float | None) for row in rows))
        for i, name in enumerate(header)
    ]
    return [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in table
    ]


def _cell(value: Any) -> str:
    return "-" if value is None else one_line(str(value))


def _block(header: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    """One row of a table that is too wide: its first cell, and below it the others with their names."""
    lines = wrapped(row[0], width)
    line = ""
    for name, cell in zip(header[1:], row[1:], strict=True):
        pair = f"  {name} {cell}"
        if line and len(line) + len(pair) > width:
            lines.append(line)
            line = ""
        line += pair
        if len(line) > width:
            lines += wrapped(line.strip(), width, indent="    ", first="  ")
            line = ""
    return [*lines, line] if line else lines


def wrapped(text: str, width: int | None, *, indent: str = "", first: str = "") -> list[str]:
    """A text in lines that end between words; a word that is longer than a line stays whole.

    Args:
        text: One paragraph.
        width: Characters in a line; None: one line.
        indent: In front of every line but the first.
        first: In front of the first line.
    """
    if width is None:
        return [f"{first}{text}"]
    import textwrap

    return textwrap.wrap(
        text,
        max(width, 20),
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first]


def terminal_width(stream: TextIO) -> int | None:
    """Characters in a line of the terminal that a stream writes to; None: it is no terminal."""
    if not stream.isatty():
        return None
    with contextlib.suppress(OSError, ValueError):
        return os.get_terminal_size(stream.fileno()).columns or USUAL_WIDTH
    return USUAL_WIDTH


def say_table(header: Sequence[str], rows: Iterable[Sequence[Any]], optional: Sequence[str] = ()) -> None:
    """Print `columns`, as wide as the terminal at most."""
    for line in columns(header, rows, terminal_width(sys.stdout), optional):
        say(line)


def say_text(text: str) -> None:
    """A sentence for people on stdout; on a terminal its lines end between words."""
    for line in wrapped(text, terminal_width(sys.stdout)):
        say(line)


def duration(seconds: float) -> str:
    """A time span for people."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def clock(when: datetime) -> str:
    """A moment for people, by the clock of the place where they are."""
    return when.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def ago(since: int | None, now: int) -> str | None:
    """The time since a moment, for people; both in ms of the server's clock. None: there was no such moment."""
    return None if since is None else duration(max(0, now - since) / 1000)


def size(number: int) -> str:
    """Bytes for people, in units of 1,000."""
    value, unit = float(number), "B"
    for larger in ("kB", "MB", "GB"):
        if value >= 1000:
            value, unit = value / 1000, larger
    return f"{value:.1f} {unit}" if unit != "B" else f"{number} B"


def say_paused(name: str, changed: bool) -> None:
    """Say that something is paused; `changed`: by this order."""
    say(f"{name} is paused" if changed else f"{name} was paused already")


def say_resumed(name: str, changed: bool) -> None:
    """Say that something goes on; `changed`: by this order."""
    say(f"{name} goes on" if changed else f"{name} was not paused")


def say_facts(facts: Mapping[str, str]) -> None:
    """Print one line for each name, or several where a terminal is too narrow."""
    widest = max(map(len, facts), default=0)
    width = terminal_width(sys.stdout)
    for name, text in facts.items():
        for line in wrapped(text, width, first=f"  {name:<{widest}} ", indent=" " * (widest + 3)):
            say(line)


@contextlib.contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show how far a job is: a bar on stderr, where that is a terminal.

    Args:
        what: The text in front of the bar.
        total: The number of things to do; None: unknown.

    Yields:
        A function to call with the number of things done since the last call.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    shown = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with shown:
        task = shown.add_task(what, total=total)
        yield lambda done: shown.advance(task, done)
