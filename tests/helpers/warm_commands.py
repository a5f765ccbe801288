"""Commands and scripts in processes that split off from one that has imported what they import.

Starting Python and importing takes four times as long as what most commands do. Each command still has a process of its
own, with its own folder, environment, files and end.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypedDict

ROOT = Path(__file__).resolve().parents[2]
IMPORTED = (
    "callboard.cli.command_line",
    "callboard.runtime.runtime",
    "callboard.broker.redis.operations.inspect",
    "asyncio",
    "uvloop",
    "pydantic",
    "typer",
)
FOR_SCRIPTS = (
    *IMPORTED,
    "callboard.agents.assistant",
    "callboard.teams.selector",
    "callboard.teams.client",
    "callboard.models.openai.client",
    "callboard.runs.launch",
    "callboard.groupchat.conversable",
    "callboard.testing",
    "openai",
)
SCRIPT = "--script"


class WarmCommands:
    """The process that they split off from; one command at a time.

    It ends when the process that made it does.

    Args:
        imported: Modules that it imports.
    """

    def __init__(self, imported: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.helpers.warm_commands", *imported],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lock = threading.Lock()

    def run(
        self, arguments: Sequence[str], folder: Path, environ: Mapping[str, str], stdin: str, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end.

        Raises:
            subprocess.TimeoutExpired: It took longer than `timeout` seconds and was killed.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as place:
            files = [Path(place) / name for name in ("out", "err")]
            order: Order = {
                "arguments": list(arguments),
                "folder": str(folder),
                "environ": dict(environ),
                "stdin": stdin,
                "outputs": [str(file) for file in files],
                "timeout": timeout,
            }
            with self._lock:
                print(json.dumps(order), file=self._process.stdin, flush=True)
                code = json.loads(self._process.stdout.readline())
            if code is None:
                raise subprocess.TimeoutExpired(list(arguments), timeout)
            out, err = (file.read_text("utf-8", "replace") for file in files)
            return subprocess.CompletedProcess(list(arguments), code, out, err)

    def close(self) -> None:
        """Ends it."""
        self._process.communicate()


@cache
def warm_commands() -> WarmCommands:
    """The one of this process."""
    return _made(IMPORTED)


@cache
def warm_scripts() -> WarmCommands:
    """The one of this process for scripts: `[SCRIPT, file]` instead of the arguments of a command."""
    return _made(FOR_SCRIPTS)


def _made(imported: Sequence[str]) -> WarmCommands:
    made = WarmCommands(imported)
    atexit.register(made.close)
    return made


class Order(TypedDict):
    """What to run. `outputs`: the files for stdout and stderr; `timeout`: seconds."""

    arguments: list[str]
    folder: str
    environ: dict[str, str]
    stdin: str
    outputs: list[str]
    timeout: float


def _serve() -> list[str]:
    """Returns in the process of a command only: with its arguments."""
    for line in sys.stdin:
        order: Order = json.loads(line)
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(write)
            return _become(order, read)
        os.close(read)
        with contextlib.suppress(BrokenPipeError), os.fdopen(write, "w", encoding="utf-8") as stdin:
            stdin.write(order["stdin"])
        print(json.dumps(_code_of(pid, order["timeout"])), flush=True)
    sys.exit()


def _become(order: Order, stdin: int) -> list[str]:
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environ"])
    outputs = [os.open(path, os.O_WRONLY | os.O_CREAT, 0o600) for path in order["outputs"]]
    for number, opened in enumerate((stdin, *outputs)):
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - what was read ahead was for another
    return order["arguments"]


def _code_of(pid: int, timeout: float) -> int | None:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return None


def _run_script(file: str) -> None:
    """As `python -W error file`."""
    sys.argv = [file]
    sys.path.insert(0, str(Path.cwd()))
    warnings.simplefilter("error")
    runpy.run_path(file, run_name="__main__")


if __name__ == "__main__":
    for module in sys.argv[1:]:
        importlib.import_module(module)
    gc.freeze()
    given = _serve()
    if given[0] == SCRIPT:
        _run_script(given[1])
        sys.exit()
    from callboard.cli import main

    main(given)
