"""Measures everything that the project promises to reach, beside two yardsticks of the same run.

The raw loop is what redis-py, msgpack and pydantic alone reach on the same server (raw.py); redis-benchmark is what the
server reaches. Absolute figures move with the machine; the column `of raw` is what can be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from typing import Any

from .peers.measuring import measure_peers
from .report import facts, median, shown, table
from .row import BACKLOG, Row, Size
from .rows import ROWS, redis_benchmark
from .site import Site

LEAST_RUNS = 3


def main() -> int:
    """Runs the measurements; returns the exit code."""
    names = [row.name for row in ROWS]
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--json", action="store_true", help="print JSON with every run instead of the table")
    parser.add_argument(
        "--quick", action="store_true", help="a quarter of the messages; for a look, not for a record"
    )
    parser.add_argument(
        "--only", action="append", metavar="NAME", choices=names, help=f"one of: {', '.join(names)}"
    )
    parser.add_argument("--runs", type=int, default=LEAST_RUNS, metavar="N", help="runs of each, 3 or more")
    parser.add_argument(
        "--backlog", type=int, default=BACKLOG, metavar="N", help="messages of the row `backlog`"
    )
    parser.add_argument(
        "--peers",
        action="store_true",
        help="other frameworks instead, each installed into a folder of its own",
    )
    options = parser.parse_args()
    if options.peers:
        return measure_peers(max(LEAST_RUNS, options.runs), quick=options.quick)
    rows = [row for row in ROWS if not options.only or row.name in options.only]
    runs = max(LEAST_RUNS, options.runs)
    with Site() as site:
        result = _measure(site, rows, Size(options.quick, options.backlog), runs)
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        _print(result)
    return 0


def _measure(site: Site, rows: list[Row], size: Size, runs: int) -> dict[str, Any]:
    benchmark = median([redis_benchmark(site, size) for _ in range(runs)]) if site.benchmark else None
    measured = []
    for row in rows:
        samples = []
        for number in range(runs):
            print(f"{row.name}: run {number + 1} of {runs}", file=sys.stderr, flush=True)
            samples.append(row.measure(site, size))
        measured.append(facts(row, samples))
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "server": site.version,
        "quick": size.quick,
        "runs": runs,
        "redis-benchmark": benchmark,
        "rows": measured,
    }


def _print(result: dict[str, Any]) -> None:
    print(f"{result['machine']}; {result['server']}; medians of {result['runs']} runs", end="")
    print("; a quick look, not a record" if result["quick"] else "")
    benchmark = result["redis-benchmark"]
    if benchmark:
        print(
            "redis-benchmark, one client: "
            + ", ".join(f"{k} {shown(v)} per second" for k, v in benchmark.items())
        )
    else:
        print("redis-benchmark is not installed: that yardstick is missing")
    print()
    print(table(result["rows"]))


if __name__ == "__main__":
    sys.exit(main())
