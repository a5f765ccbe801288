"""Processes of teams that kill themselves with -9 at a step of the turn loop, or stop there, as a machine that sleeps.

``DIES_AT`` names steps, `<type> <step>`, separated by commas: a process of that type dies when it reaches the step, once in
the folder ``DEATHS``, which then has a file of that name with `-` for blanks. ``DIES_BY`` names another signal, SIGSTOP.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from callboard.teams.loop import watch_steps


def die_where_told() -> None:
    """Watch the steps of this process, if it was told to die; the process of a test that imports a team was not."""
    if "DIES_AT" in os.environ:
        watch_steps(_die)


async def _die(step: str) -> None:
    mine = sys.argv[sys.argv.index("--type") + 1]
    death = f"{mine} {step}"
    if death not in os.environ["DIES_AT"].split(","):
        return
    mark = Path(os.environ["DEATHS"]) / death.replace(" ", "-")
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.Signals[os.environ.get("DIES_BY", "SIGKILL")])
