"""The launcher: a small process between an executor and the code that it runs.

The launcher runs as `python -I -S -c "..."` with this folder as a package of its own, so that it starts in milliseconds:
hence nothing but the standard library is imported, and everything by relative names. Three processes take part:

===========  =====================================================================================================
launcher     the executor's child: waits for the end, the timeout or the executor's word, then kills what is left
keeper       its child, the first process of the new namespaces: arranges the mounts, watches memory, disk and processes
program      its child: gives up its rights, sets its limits, and becomes the interpreter that runs the code
===========  =====================================================================================================

This module is what the executor tells its launcher.
"""

from __future__ import annotations

import json
from typing import NamedTuple

#: Exit codes, as the shell and AutoGen use them.
TIMEOUT, CANCELLED, REFUSED, KILLED = 124, 125, 126, 137

#: Measures that a system may not allow, in the order in which they are taken.
NAMESPACES, PROC, SECCOMP, LANDLOCK = "namespaces", "proc", "seccomp", "landlock"
MEASURES = (NAMESPACES, PROC, SECCOMP, LANDLOCK)


class LaunchPlan(NamedTuple):
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
    def from_json(cls, text: str) -> LaunchPlan:
        """Read what `to_json` wrote."""
        return cls(**json.loads(text))
