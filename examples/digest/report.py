"""The report of a run of `callboard demo`: its counts, checked and shown."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from callboard.broker.redis.operations.views import Overview
from callboard.cli.output import columns, duration
from callboard.models import Spent

from .messages import PARTS, ROUNDS

ROLES: Mapping[str, str] = {
    "splitter": "A splits",
    "worker": "B works",
    "compiler": "C compiles",
    "reviewer": "D reviews",
}
EXPECTED: Mapping[str, int] = {
    "splitter": 1,
    "worker": PARTS * ROUNDS,
    "compiler": PARTS * ROUNDS,
    "reviewer": PARTS * ROUNDS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeReport:
    """One agent type.

    Attributes:
        type: The agent type.
        role: Its letter and what it does.
        processes: The number that ran.
        handled: Messages handled, each counted once.
        expected: Messages that there are for it.
        retries: Attempts that failed, and times that a worker died with some in hand.
        seconds: From the start of the job until its last message was handled.
    """

    type: str
    role: str
    processes: int
    handled: int
    expected: int
    retries: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole run.

    Attributes:
        namespace: The namespace of the run.
        digest: Markdown.
        types: One report each.
        results: Messages on the topic `results`.
        pending: Messages that were not handled.
        dead: Dead letters.
        killed: Pids of workers killed on purpose.
        seconds: From the publication of the requirements to the last result.
        model: The model that was used; None: none was.
        spent: What it used.
    """

    namespace: str
    digest: str
    types: tuple[TypeReport, ...]
    results: int
    pending: int
    dead: int
    killed: tuple[int, ...]
    seconds: float
    model: str | None = None
    spent: Spent | None = None

    @property
    def problems(self) -> list[str]:
        """The counts that are wrong, each as a sentence; empty if all are exact."""
        found = [
            f"{one.type} handled {one.handled} messages instead of {one.expected}"
            for one in self.types
            if one.handled != one.expected
        ]
        found += [f"there are {self.results} results instead of {PARTS}"] if self.results != PARTS else []
        found += [f"{self.pending} messages are pending"] if self.pending else []
        found += [f"there are {self.dead} dead letters"] if self.dead else []
        return found

    def as_data(self) -> dict[str, Any]:
        """For programs."""
        data = {**asdict(self), "exact": not self.problems}
        without_model = () if self.model else ("model", "spent")
        return {name: value for name, value in data.items() if name not in without_model}


def type_reports(
    view: Overview, processes: Mapping[str, int], seconds: Mapping[str, float]
) -> tuple[TypeReport, ...]:
    """The reports of all agent types.

    Args:
        view: Taken after the end.
        processes: The number that ran of each.
        seconds: When each was seen to have handled its last message.
    """
    by_name = {one.type: one for one in view.types}
    return tuple(
        TypeReport(
            type=name,
            role=ROLES[name],
            processes=processes[name],
            handled=by_name[name].done,
            expected=expected,
            retries=by_name[name].retried + by_name[name].reaped,
            seconds=round(seconds.get(name, 0.0), 2),
        )
        for name, expected in EXPECTED.items()
    )


def pending_in(view: Overview) -> int:
    """Messages that are still to be handled, timers included."""
    waiting = view.totals.waiting
    return view.totals.running + view.timers + (1 if waiting is None else waiting)


def lines_of(report: Report, command: str) -> list[str]:
    """The report for people, without the digest.

    Args:
        report: The report to show.
        command: The command line of `callboard server cli` here.
    """
    header = ("AGENT TYPE", "ROLE", "PROCESSES", "HANDLED", "OF", "RETRIES", "DONE AFTER")
    rows = [
        (*(one.type, one.role, one.processes, one.handled, one.expected, one.retries), duration(one.seconds))
        for one in report.types
    ]
    killed = "".join(f"; worker process {pid} was killed with -9 on the way" for pid in report.killed)
    verdict = "; ".join(report.problems) or "every count is exact"
    counts = f"{report.results} results, {report.pending} pending, {report.dead} dead"
    return [
        *columns(header, rows),
        "",
        f"{counts}, in {duration(report.seconds)}{killed}: {verdict}.",
        *([f"{report.model}: {_bill(report.spent)}."] if report.spent else []),
        "",
        "To look at what happened (these start the server again from its file):",
        *(f"  {command} {line}" for line in looks(report.namespace)),
    ]


def _bill(spent: Spent) -> str:
    cost = "no price is known (--price)" if spent.unpriced else f"{spent.usd:.4f} USD"
    tokens = f"{spent.prompt_tokens:,} tokens read, {spent.completion_tokens:,} written"
    return f"{spent.requests} answers, {tokens}, {cost}"


def looks(namespace: str) -> list[str]:
    """redis-cli commands that show a finished run."""
    prefix = f"callboard:{{{namespace}}}:"
    commands: Sequence[Sequence[str]] = (
        ("XINFO", "GROUPS", f"{prefix}topic:subtasks"),
        ("HGETALL", f"{prefix}stats:worker"),
        ("XLEN", f"{prefix}topic:results"),
        ("XREVRANGE", f"{prefix}topic:feedback", "+", "-", "COUNT", "1"),
        ("XLEN", f"{prefix}dead:worker"),
    )
    return [" ".join(_quoted(word) for word in words) for words in commands]


def _quoted(word: str) -> str:
    return word if word in ("+", "-") else shlex.quote(word)


def server_cli(url: str | None) -> str:
    """The command line that runs `callboard server cli` from here, to be pasted."""
    own = Path(sys.argv[0])
    if own.name == "callboard" and own.is_file():
        on_path = shutil.which("callboard")
        same = on_path is not None and Path(on_path).resolve() == own.resolve()
        words = ["callboard"] if same else [_shortest(own)]
    else:
        words = [_shortest(Path(sys.executable)), "-m", "callboard"]
    return shlex.join([*words, "server", "cli", *(["--url", url] if url else [])])


def _shortest(path: Path) -> str:
    absolute = Path(path).absolute()
    here = Path.cwd()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(absolute)
