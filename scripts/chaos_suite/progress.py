"""Tells a person how far it is: a bar for each act on a terminal, elsewhere a line for each step."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .plan import ActPlan, Step
from .runner import ActResult

if TYPE_CHECKING:
    import rich.progress

STARTING = 2.0  # seconds that an act takes besides its steps


def _named(step: Step) -> str:
    return " + ".join(fault.name for fault in step.faults)


def _judged(result: ActResult) -> str:
    number = len(result.violations)
    return "the promise held" if not number else f"the promise was broken {number} times"


class Lines:
    """For logs. Each line begins with the seconds since the start."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def _say(self, line: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} {line}", file=sys.stderr, flush=True)

    def begins(self, act: ActPlan) -> None:
        self._say(f"{act.name}: begins, seed {act.seed.split()[0]}, {act.setting.workers} workers")

    def strikes(self, act: ActPlan, step: Step) -> None:
        self._say(f"{act.name}: {_named(step)}")

    def ends(self, act: ActPlan, result: ActResult) -> None:
        self._say(f"{act.name}: {_judged(result)}; {result.seconds:.0f} s, {result.committed:,} commits")
        if result.violations:
            self._say(result.complaint())


class Bars:
    """For terminals. The length of a bar is how long the faults take, about."""

    def __init__(self, progress: rich.progress.Progress) -> None:
        self._progress = progress
        self._tasks: dict[str, rich.progress.TaskID] = {}

    def begins(self, act: ActPlan) -> None:
        self._tasks[act.seed] = self._progress.add_task(
            f"{act.name}: starts", total=act.seconds + 2 * STARTING
        )

    def strikes(self, act: ActPlan, step: Step) -> None:
        done = sum(one.seconds for one in act.steps[: act.steps.index(step)])
        self._progress.update(
            self._tasks[act.seed], completed=STARTING + done, description=f"{act.name}: {_named(step)}"
        )

    def ends(self, act: ActPlan, result: ActResult) -> None:
        self._progress.update(
            self._tasks[act.seed],
            completed=act.seconds + 2 * STARTING,
            description=f"{act.name}: {_judged(result)}",
        )
        if result.violations:
            self._progress.console.print(result.complaint(), markup=False, highlight=False)


@contextlib.contextmanager
def shown() -> Iterator[Lines | Bars]:
    """Progress on stderr, for as long as it lasts."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(bar_width=20), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield Bars(progress)
