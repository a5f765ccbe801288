"""Writes histories, see history.py: one small write for each line, so that processes may share a file and be killed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path


class Recorder:
    """The events of one process.

    Args:
        file: is added to.
        process: who writes; several recorders may write into one file.
    """

    def __init__(self, file: Path, process: str) -> None:
        self.process = process
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(
        self, type: str, op: str, key: str, id: str, at: float | None = None, process: str = ""
    ) -> None:
        """Adds an event, of now unless a time is given."""
        event = {
            "process": process or self.process,
            "type": type,
            "op": op,
            "key": key,
            "id": id,
            "time": time.time() if at is None else at,
        }
        os.write(self._file, json.dumps(event).encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)
