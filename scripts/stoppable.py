"""Runs a script so that Ctrl-C, SIGTERM and SIGHUP end it with one line, with status 130 and with nothing left behind.

  python -m scripts.stoppable scripts/bench scripts.benchmarks.cost --rounds 3

A terminal sends Ctrl-C to the whole group of what it runs: the processes of a measurement would die of it, each with a
traceback, while the script has yet to end its servers and to remove its folders. So the script gets a process and a group
of its own. It alone is told, and what is left of its group when it has ended is killed.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Final

STOPPED: Final = 130
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: Sequence[str]) -> int:
    """Runs a script; returns its exit code, and 130 where a signal came.

    Args:
        arguments: What the script is called, the module whose `main` it is, and its own arguments.
    """
    name, module, *own = arguments
    # A signal that comes before the process is known would be told to nobody.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    process = os.fork()
    if process == 0:
        return _carry_out(name, module, own)
    stops: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        stops.append(number)
        os.kill(process, signal.SIGINT)

    for number in SIGNALS:
        signal.signal(number, stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    code = _wait(process)
    return STOPPED if stops else code


def _wait(process: int) -> int:
    """Waits for the end of the script, and ends what is left of its group."""
    # Not reaped yet, so that nobody else has its number: a signal that comes now reaches nobody.
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return code if code >= 0 else 128 - code


def _carry_out(name: str, module: str, arguments: Sequence[str]) -> int:
    os.setpgid(0, 0)
    # asyncio.run takes this one's place, and cancels its task in an orderly way.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Its own group is not the terminal's any more; who may not write there would stand still.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        sys.argv = [name, *arguments]
        return int(importlib.import_module(module).main())
    except KeyboardInterrupt:
        print(f"{name}: stopped", file=sys.stderr)
        return STOPPED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
