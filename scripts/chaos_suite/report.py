"""The report of a run, as tables that docs/reliability.md takes over."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterable, Sequence

from .checker import RULES
from .figures import Measured, worst
from .runner import ActResult


def report(results: Sequence[ActResult], seed: int) -> str:
    """Where, what was counted, what was wrong, what was measured."""
    parts = [_machine(results, seed), _counts(results), _rules(results)]
    measured = [one for result in results for one in result.measured]
    if measured:
        parts.append(_figures(measured))
    parts += [result.complaint() for result in results if result.violations]
    return "\n\n".join(parts)


def holds(results: Iterable[ActResult]) -> bool:
    """The promise was kept."""
    return not any(result.violations for result in results)


def in_time(results: Iterable[ActResult]) -> bool:
    """Every figure is as expected."""
    return all(one.holds for result in results for one in result.measured)


def _machine(results: Sequence[ActResult], seed: int) -> str:
    servers = ", ".join(sorted({result.server for result in results}))
    return f"seed {seed}; {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; {servers}"


def _counts(results: Sequence[ActResult]) -> str:
    rows = [
        (
            result.name,
            f"{result.seconds:.0f} s",
            f"{result.acknowledged:,}",
            f"{result.committed:,}",
            f"{result.executions:,}",
        )
        for result in results
    ]
    return table(("act", "took", "acknowledged", "committed", "handlers started"), rows)


def _rules(results: Sequence[ActResult]) -> str:
    found = Counter(violation.rule for result in results for violation in result.violations)
    rules = [*RULES, *sorted(set(found) - set(RULES))]
    return table(("must not happen", "found"), [(rule, str(found[rule])) for rule in rules])


def _figures(measured: list[Measured]) -> str:
    rows = [
        (
            one.figure.what,
            f"<= {one.figure.shown(one.figure.at_most)}",
            one.figure.shown(one.value),
            "yes" if one.holds else "NO",
        )
        for one in worst(measured)
    ]
    return table(("what", "expected", "measured", "holds"), rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table that can be read as it is."""
    widths = [max(len(line[i]) for line in (head, *rows)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    return "\n".join([line(head), line(["-" * width for width in widths]), *map(line, rows)])
