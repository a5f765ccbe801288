"""The log of outside effects: every run of a handler, as the handler itself writes it down.

It is outside the promise on purpose: it shows what started twice, what overlapped and who did it, while the messages on
the topic `effects`, which leave with the commit, show what counted.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from .clock import now
from .history import LineFile, LineReader

PATTERN = "effects-*.jsonl"


class Execution(NamedTuple):
    """One run of a handler.

    Attributes:
        run: unique.
        id, key: of the message, and of the agent as `type/key`.
        attempt: as the handler was told.
        worker: the incarnation that ran it: `host:pid:token:number`, the number being the fencing token.
        start, end: times of clock.py; no end when its process died in it.
        how: `returned`, `raised`, `cancelled`, or "" without an end.
    """

    run: str
    id: str
    key: str
    attempt: int
    worker: str
    start: float
    end: float | None
    how: str

    @property
    def pid(self) -> int:
        return int(self.worker.split(":")[-3])


class EffectsLog:
    """The file of one process."""

    def __init__(self, folder: Path) -> None:
        self._file = LineFile(folder / f"effects-{os.getpid()}.jsonl")

    def start(self, id: str, key: str, attempt: int, worker: str) -> str:
        """Notes that a handler starts; returns the name of this run of it."""
        run = os.urandom(6).hex()
        self._file.add(
            {
                "what": "start",
                "run": run,
                "id": id,
                "key": key,
                "attempt": attempt,
                "worker": worker,
                "time": now(),
            }
        )
        return run

    def end(self, run: str, how: str) -> None:
        """Notes that it is about to end."""
        self._file.add({"what": "end", "run": run, "how": how, "time": now()})


class EffectsReader:
    """Reads the files of all processes, each line once.

    Args:
        folder: where they are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[Path, LineReader] = {}
        self._found: dict[str, Execution] = {}

    def read(self) -> list[Execution]:
        """The executions that have been noted so far, by start."""
        for path in self._folder.glob(PATTERN):
            for line in self._files.setdefault(path, LineReader(path)).new():
                self._take(line)
        return sorted(self._found.values(), key=lambda one: one.start)

    def _take(self, line: dict[str, Any]) -> None:
        run = line["run"]
        if line["what"] == "end":
            self._found[run] = self._found[run]._replace(end=line["time"], how=line["how"])
            return
        self._found[run] = Execution(
            run, line["id"], line["key"], line["attempt"], line["worker"], line["time"], None, ""
        )
