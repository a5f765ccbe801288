"""What the executor tells its launcher."""

from __future__ import annotations

import json
from typing import NamedTuple

#: Exit codes, as the shell and AutoGen use them.
TIMEOUT, CANCELLED, REFUSED, KILLED = 124, 125, 126, 137

#: Measures that a system may not allow, in the order in which they are taken.
NAMESPACES, PROC, SECCOMP, LANDLOCK = "namespaces", "proc", "seccomp", "landlock"
MEASURES = (NAMESPACES, PROC, SECCOMP, LANDLOCK)


class Plan(NamedTuple):
    """One run.

    Attributes:
        command: The interpreter's path and its arguments.
        folder: The work folder.
        timeout: Seconds after which it is stopped.
        measures: Those of `MEASURES` to take; one that fails ends the run before it begins.
        network: Sockets are allowed.
        readable: Files and folders that it may read and execute.
        memory: Bytes of address space of each process, and of resident memory of all together.
        cpu_seconds: Processor time of each process.
        processes: Processes and threads at once.
        open_files: Open files of each process.
        file_size: Bytes of each file.
        disk: Bytes that may be added to the folder.
        files: Files that may be added to the folder.
    """

    command: list[str]
    folder: str
    timeout: float
    measures: list[str]
    network: bool
    readable: list[str]
    memory: int
    cpu_seconds: int
    processes: int
    open_files: int
    file_size: int
    disk: int
    files: int

    def to_json(self) -> str:
        """The plan as an argument of the launcher."""
        return json.dumps(self._asdict())

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read what `to_json` wrote."""
        return cls(**json.loads(text))
