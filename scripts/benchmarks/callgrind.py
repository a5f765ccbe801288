"""Instructions instead of time: programs run under callgrind, whose counts hardly depend on what else the machine does."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Final

from tests.helpers.servers import ServerProcess, best_kind

MISSING: Final = "valgrind is not installed, and instructions are counted by it: apt-get install valgrind"
PATIENCE: Final = 600.0  # seconds until a program under callgrind has ended: it is 50 times as slow


class CallgrindError(Exception):
    """Nothing could be counted."""


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise CallgrindError(MISSING)
    return found


def callgrind(folder: Path, name: str, *options: str) -> list[str]:
    """What to put before a command so that its instructions are counted.

    Args:
        folder: where `<name>.log` is written, which `counted` reads, and `<name>.profile`, for callgrind_annotate.
        name: of both files.
        options: further options of callgrind.

    Raises:
        CallgrindError: valgrind is not installed.
    """
    program = _program("valgrind")
    log, profile = folder / f"{name}.log", folder / f"{name}.profile"
    return [
        program, "--tool=callgrind", f"--log-file={log}", f"--callgrind-out-file={profile}",
        _pipes(folder), *options,
    ]  # fmt: skip


def _pipes(folder: Path) -> str:
    """The option for its pipes: beside its files, for they stay where they are when the program is killed."""
    return f"--vgdb-prefix={folder / 'vgdb-pipe'}"


def counted(log: str) -> int:
    """The instructions of all threads, from what callgrind says at the end of a program.

    Raises:
        CallgrindError: it says no number, since the program was killed or did not start.
    """
    found = re.findall(r"Collected\s*:\s*(\d+)", log)
    if not found:
        raise CallgrindError(f"callgrind counted nothing; it says: {log[-500:]}")
    return sum(map(int, found))


class CountedServer(ServerProcess):
    """A server whose instructions are counted.

    Args:
        from_start: at once; else after `begin()`. Until then it is a tenth as slow.
    """

    def __init__(self, *, from_start: bool = True) -> None:
        super().__init__(best_kind())
        self._from_start = from_start

    def _command(self) -> list[str]:
        at_start = f"--instr-atstart={'yes' if self._from_start else 'no'}"
        return [*callgrind(self.folder, "callgrind", at_start), *super()._command()]

    def begin(self) -> None:
        """From now on instructions are counted."""
        self._tell("instrumentation", "on")

    def count(self) -> int:
        """Instructions until now of the thread that carries out commands."""
        found = re.search(r"^events-1: (\d+)", self._tell("status", "internal"), re.MULTILINE)
        if found is None:
            raise CallgrindError("callgrind does not say what it has counted: is valgrind older than 3.13?")
        return int(found[1])

    def total(self) -> int:
        """Ends the server; the instructions of all its threads."""
        self.signal(signal.SIGTERM)
        self.wait(PATIENCE)
        return counted((self.folder / "callgrind.log").read_text())

    def _tell(self, *words: str) -> str:
        """Says something to callgrind in the running program; returns what it answers."""
        done = subprocess.run(
            [_program("vgdb"), _pipes(self.folder), f"--pid={self.pid}", "--max-invoke-ms=1", *words],
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        if done.returncode:
            raise CallgrindError(f"callgrind can't be asked while the server runs: {done.stderr.strip()}")
        return done.stdout
