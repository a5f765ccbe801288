"""Instructions that a message costs, its process and the server, counted by callgrind: here, and in another checkout.

What a call does takes as many whatever else the machine does; how many messages share a call depends on it, so the machine
has to be quiet. A process needs thousands of times as many to begin as a message takes: it runs with few messages and with
many, and the difference is what counts.

All of it takes a quarter of an hour on a machine that does nothing else, and as long again for another checkout: each run
says what it is and how long it took.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import redis

from .callgrind import PATIENCE, CallgrindError, CountedServer, callgrind, counted
from .cost import NODE, Work, add_topics, check_topics, over_topics
from .site import ROOT, checkout


class Counts(NamedTuple):
    """Messages of the two runs of a process; of a team: turns."""

    few: int
    many: int


WAYS: Final = {
    "publish": Counts(1000, 5000),
    "handle": Counts(1000, 5000),
    "drive": Counts(1000, 5000),
    "relay": Counts(1000, 4000),
    "fan": Counts(1000, 6000),
    "ask": Counts(500, 2500),
    "ask-alone": Counts(200, 1000),
    "team": Counts(50, 250),
}


class Spent(NamedTuple):
    """Instructions, by who spent them."""

    process: float
    server: float


def _counted(checkout: Path, work: Work, patience: float) -> Spent:
    """One process with so many messages, on a server of its own, from their starts to their ends."""
    print(f"  {work.name}, {work.messages:,} in {checkout}: ", end="", file=sys.stderr, flush=True)
    began = time.monotonic()
    try:
        spent = _spent(checkout, work, patience)
    except subprocess.TimeoutExpired as error:
        raise CallgrindError(
            f"{work.name} with {work.messages:,} did not end within {patience:g} s: wait until the machine has less to do, "
            "or say --within SECONDS"
        ) from error
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return spent


def _spent(checkout: Path, work: Work, patience: float) -> Spent:
    with tempfile.TemporaryDirectory(prefix="instructions") as folder, CountedServer() as server:
        # What a server does by time counts for more, the slower the process: as little of it as there may be.
        redis.Redis.from_url(server.url).config_set("hz", "1")
        command = [sys.executable, "-P", str(NODE), *work.arguments(server.url)]
        done = subprocess.run(
            [*callgrind(Path(folder), "process"), *command],
            # The same order of what stands in sets, and so the same count.
            env={**os.environ, "PYTHONPATH": str(checkout), "PYTHONHASHSEED": "0"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=patience,
            check=False,
        )
        if done.returncode:
            raise CallgrindError(f"{work.name} in {checkout} failed: {done.stderr[-2000:]}")
        return Spent(counted((Path(folder) / "process.log").read_text()), server.total())


def per_message(few: Spent, many: Spent, counts: Counts) -> Spent:
    """What one message costs, without what a process costs that has none."""
    more = counts.many - counts.few
    return Spent((many.process - few.process) / more, (many.server - few.server) / more)


def measured(checkout: Path, way: str, topics: int = 0, patience: float = PATIENCE) -> Spent:
    """What a message costs in a checkout, if each run ends within so many seconds; `topics` as of `Work`."""
    counts = WAYS[way]
    few, many = (_counted(checkout, Work(way, messages, topics), patience) for messages in counts)
    return per_message(few, many, counts)


def lines(way: str, here: Spent, there: Spent | None) -> list[str]:
    """The rows of a way in the table."""
    rows = []
    for spender in Spent._fields:
        row = f"{way:<10} {spender:<7} {getattr(here, spender):>11,.0f}"
        if there is not None:
            row += (
                f" {getattr(there, spender):>11,.0f}  {getattr(here, spender) / getattr(there, spender):.3f}"
            )
        rows.append(row)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the measurement and prints the table; 1 when nothing could be counted."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench instructions", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--against", type=checkout, metavar="FOLDER", help="another checkout, measured as well"
    )
    parser.add_argument("--only", metavar="WAY,...", help=f"some of {', '.join(WAYS)}; default: all")
    parser.add_argument(
        "--within",
        type=float,
        metavar="SECONDS",
        default=PATIENCE,
        help=f"for each run; default: {PATIENCE:g}",
    )
    add_topics(parser)
    options = parser.parse_args(arguments)
    ways = options.only.split(",") if options.only else over_topics(WAYS, options.topics)
    if unknown := sorted({*ways} - {*WAYS}):
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(WAYS)}")
    check_topics(parser, ways, options.topics)
    against: Path | None = options.against
    print("instructions for each message: here" + (", there, here / there" if against else ""))
    try:
        for way, topics in itertools.product(ways, options.topics or [0]):
            there = None if against is None else measured(against, way, topics, options.within)
            here = measured(ROOT, way, topics, options.within)
            print("\n".join(lines(Work(way, 0, topics).name, here, there)), flush=True)
    except CallgrindError as error:
        print(f"scripts/bench instructions: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
