"""Medians, and the table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from .row import Row, Sample


def median(samples: Sequence[Sample]) -> Sample:
    """The median of each figure."""
    return {name: statistics.median(sample[name] for sample in samples) for name in samples[0]}


def shown(number: float) -> str:
    """A figure with as many digits as it deserves."""
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.1f}" if abs(number) >= 10 else f"{number:.2f}"


def facts(row: Row, samples: Sequence[Sample]) -> dict[str, Any]:
    """A row as plain data."""
    figures = median(samples)
    ours = [name for name in figures if not name.startswith("raw ")]
    reached = [
        _level(figures[name], good, goal, row)
        for name, good, goal in zip(ours, row.good, row.goal, strict=True)
    ]
    ratios = {
        name: figures[name] / figures[f"raw {name}"]
        for name in ours
        if figures.get(f"raw {name}") and row.times_raw
    }
    return {
        "name": row.name,
        "what": row.what,
        "unit": row.unit,
        "median": {name: figures[name] for name in ours},
        "raw": {
            name.removeprefix("raw "): value for name, value in figures.items() if name.startswith("raw ")
        },
        "of raw": ratios,
        "runs": list(samples),
        "good": list(row.good),
        "goal": list(row.goal),
        "lower is better": row.lower_is_better,
        "reached": reached,
    }


def _level(figure: float, good: float, goal: float, row: Row) -> str:
    def holds(target: float) -> bool:
        return figure <= target if row.lower_is_better else figure >= target

    return "goal" if holds(goal) else "good" if holds(good) else "below"


HEADINGS = ("what", "unit", "ours", "raw loop", "of raw", "good", "goal", "reached")


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The table as text."""
    lines = [HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADINGS))]

    def format_line(cells: Sequence[str]) -> str:
        return "  ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )

    return "\n".join(
        [format_line(lines[0]), "  ".join("-" * width for width in widths), *map(format_line, lines[1:])]
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    def several(numbers: Sequence[float]) -> str:
        return " / ".join(shown(number) for number in numbers)

    return (
        row["what"],
        row["unit"],
        several(list(row["median"].values())),
        several(list(row["raw"].values())),
        several(list(row["of raw"].values())),
        several(row["good"]),
        several(row["goal"]),
        " / ".join(row["reached"]),
    )
