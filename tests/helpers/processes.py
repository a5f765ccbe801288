"""Processes of the tests: started, stopped, killed, and gone at the end whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import psutil

from .eventually import eventually

ROOT = Path(__file__).resolve().parents[2]


class Process:
    """One process; its output goes to a file.

    Args:
        command: program and arguments.
        environ: added to the environment; variables of ours are not inherited.
        cwd: its folder.
    """

    def __init__(
        self, command: list[str], environ: Mapping[str, str] | None = None, cwd: Path = ROOT
    ) -> None:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("CALLBOARD_") and name != "REDIS_URL"
        }
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env={**inherited, "PYTHONUNBUFFERED": "1", **(environ or {})},
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    @property
    def memory(self) -> int:
        """Resident bytes."""
        return int(psutil.Process(self.pid).memory_info().rss)

    def output(self) -> str:
        size = os.fstat(self._output.fileno()).st_size
        return os.pread(self._output.fileno(), size, 0).decode(errors="replace")

    def lines(self, containing: str = "") -> list[str]:
        return [line for line in self.output().splitlines() if containing in line]

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill -9, and waits until it is gone."""
        self._process.kill()
        self._process.wait()

    async def says(self, text: str, within: float = 10.0) -> None:
        """Waits until a line of its output contains `text`."""
        await eventually(lambda: text in self.output(), within, what=self.output)

    async def ended(self, within: float = 10.0) -> int:
        """Waits for its end; returns the exit code."""
        await eventually(lambda: not self.is_alive, within, what=self.output)
        code = self._process.returncode
        assert code is not None
        return int(code)

    def close(self) -> None:
        if self.is_alive:
            self.kill()
        self._output.close()


def python(*arguments: str) -> list[str]:
    """A command that runs this interpreter."""
    return [sys.executable, *arguments]


def has_ended(process: psutil.Process) -> bool:
    """Whether it has. Where the first process of a container reaps nobody, it stays as a zombie."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
