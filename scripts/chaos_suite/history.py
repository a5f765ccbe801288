"""The history of a run: what was tried and how it ended, in the style of Jepsen. One JSON object a line, checked offline.

    {"process": "p1:4711", "type": "invoke", "op": "publish", "key": "p1.k3", "id": "p1.k3/17", "time": 1763700000.123456}

process  who did it: one publisher process, or one run of a handler (`<worker>#<run>`)
type     `invoke`: begins. `ok`: happened. `fail`: certainly did not happen. `info`: not known; it may have happened, or may
         still happen
op       `publish`: a message is handed to Callboard. `commit`: a run of its handler takes effect
key      the agent's key; for one key, a message that was acknowledged before another was begun comes first
id       of the message, unique in a run. It may be begun again, by the same process or another, when it carries a
         `message_id`: it still counts once. `<id>?` is a message without one, which is begun again only after a `fail`
time     seconds since 1970 on the clock of clock.py, which all processes share

An `invoke` without an end counts as `info`: its process died. A `commit` is `invoke` when its handler starts, `ok` at the
time of the stream entry that the commit wrote, and `fail` when there is none although everything is at rest.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from .clock import now

EventType = Literal["invoke", "ok", "fail", "info"]
Operation = Literal["publish", "commit"]
WITHOUT_ID = "?"


class Event(NamedTuple):
    """One line."""

    process: str
    type: EventType
    op: Operation
    key: str
    id: str
    time: float

    @property
    def is_repeatable(self) -> bool:
        """The message carries a `message_id`, so that it may be published again."""
        return not self.id.endswith(WITHOUT_ID)


class LineFile:
    """A file to which whole lines are added at once, so that neither kill -9 nor another process tears one."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def add(self, line: dict[str, object]) -> None:
        os.write(self._descriptor, (json.dumps(line) + "\n").encode())

    def close(self) -> None:
        os.close(self._descriptor)


class Recorder:
    """Writes the history of one process, as it happens."""

    def __init__(self, path: Path, process: str) -> None:
        self._file = LineFile(path)
        self._process = process

    def record(self, type: EventType, op: Operation, key: str, id: str) -> None:
        """Adds an event that happens now."""
        self._file.add(Event(self._process, type, op, key, id, now())._asdict())

    def close(self) -> None:
        self._file.close()


class LineReader:
    """Reads a file of JSON lines that others add to, each line once. A last line that is not whole yet is left for later."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def new(self) -> list[dict[str, Any]]:
        """The lines that came since the last call."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._read)
            whole, end, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(end)
        return [json.loads(line) for line in whole.splitlines()]


def read(path: Path) -> list[Event]:
    """The events of one file, in the order in which they were written."""
    return [Event(**line) for line in LineReader(path).new()]


def write(path: Path, events: Iterable[Event]) -> None:
    """A whole history, in order of time."""
    lines = [json.dumps(event._asdict()) for event in sorted(events, key=lambda event: event.time)]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
