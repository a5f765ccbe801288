"""Printing: aligned columns, JSON, values for people, and a progress bar."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from callboard.errors import ActorError
from callboard.process.printing import CATCH_UP, Outlet

LOOK_EVERY = 0.02  # seconds between two looks at whether a slow reader has read


class OutputClosedError(ActorError):
    """The reader of the output is gone, as the other end of a pipe may be."""


def say(line: str = "") -> None:
    """One line on stdout, at once, so that a pipe sees it.

    Raises:
        OutputClosedError: Its reader is gone.
    """
    try:
        print(line, flush=True)
    except OSError as error:
        # A pipe without its reader, or a terminal that was closed. typer would make exit code 1 of the first.
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        raise OutputClosedError from error


class PatientPrinter:
    """Prints lines on stdout and waits until somebody reads them, while the event loop still sees Ctrl-C."""

    def __init__(self) -> None:
        self._outlet = Outlet(sys.stdout.fileno())

    async def say(self, line: str) -> None:
        """One line; returns when it is written.

        Raises:
            OutputClosedError: Its reader is gone.
        """
        self._outlet.put(f"{line}\n".encode(sys.stdout.encoding, "backslashreplace"))
        self._outlet.settle(CATCH_UP)
        while self._outlet.is_busy:  # noqa: ASYNC110 - a thread writes, and has no event of this loop
            await asyncio.sleep(LOOK_EVERY)
        if self._outlet.is_closed:
            raise OutputClosedError


def remark(line: str) -> None:
    """One line on stderr, for everything that is not data."""
    print(line, file=sys.stderr, flush=True)


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


def columns(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Lines of a table: numbers to the right, the rest to the left.

    Args:
        header: One name per column.
        rows: Values; None is shown as `-`.
    """
    listed = [list(row) for row in rows]
    cells = [["-" if value is None else str(value) for value in row] for row in listed]
    right = [
        listed and all(isinstance(row[i], int | float | None) for row in listed) for i in range(len(header))
    ]
    table = [list(header), *cells]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    return [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in table
    ]


def say_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Prints `columns`."""
    for line in columns(header, rows):
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


@contextlib.contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Shows how far a job is: a bar on stderr, where that is a terminal.

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
