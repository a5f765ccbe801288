"""Processor time that a message costs, its process and the server: of this checkout, and beside it of another one.

Other programs on the machine change it less than they change the time that passes, and still by half. So both checkouts
take turns, each round gives a ratio, and the median of the ratios is what counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.helpers.servers import ServerProcess, best_kind

from .site import PATIENCE, ROOT, at_least_one, checkout

NODE: Final = Path(__file__).with_name("cost_node.py")
SPENDERS: Final = ("python", "server")
COUNTS: Final = {
    "publish": 20_000,
    "handle": 20_000,
    "drive": 20_000,
    "relay": 15_000,
    "fan": 30_000,
    "ask": 10_000,
    "ask-alone": 2_000,
    "team": 2_000,
}
"""Messages of one measurement, by way; of a team: turns."""
OVER_TOPICS: Final = ("publish", "handle", "drive")
"""Ways that `--topics` measures."""


class Round(NamedTuple):
    """Microseconds for each message in one round, by who spent them."""

    here: dict[str, float]
    there: dict[str, float] | None


class Work(NamedTuple):
    """What is measured: a way, with so many messages, over so many topics; 0: its own one."""

    way: str
    messages: int
    topics: int = 0

    @property
    def name(self) -> str:
        """Of its line."""
        return f"{self.way}/{self.topics}" if self.topics else self.way

    def arguments(self, url: str) -> list[str]:
        """Of the node that does it, with the server of this URL."""
        return [self.way, str(self.messages), url, *([str(self.topics)] if self.topics else [])]


def _spent(checkout: Path, work: Work) -> dict[str, float]:
    """One measurement, on a server of its own."""
    with ServerProcess(best_kind()) as server:
        done = subprocess.run(
            [sys.executable, "-P", str(NODE), *work.arguments(server.url)],
            env={**os.environ, "PYTHONPATH": str(checkout)},
            stdout=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _round(number: int, work: Work, against: Path | None) -> Round:
    """Who comes first changes from round to round."""
    if against is None:
        return Round(_spent(ROOT, work), None)
    order = (ROOT, against) if number % 2 else (against, ROOT)
    spent = {checkout: _spent(checkout, work) for checkout in order}
    return Round(spent[ROOT], spent[against])


def _line(way: str, spender: str, rounds: Sequence[Round]) -> str:
    here = statistics.median(one.here[spender] for one in rounds)
    start = f"{way:<12} {spender:<7} {here:>7.1f}"
    ratios = [one.here[spender] / one.there[spender] for one in rounds if one.there is not None]
    if not ratios:
        return start
    there = statistics.median(one.there[spender] for one in rounds if one.there is not None)
    return f"{start} {there:>7.1f}  {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _works(options: argparse.Namespace) -> list[Work]:
    """What the options ask for."""
    part = 20 if options.quick else 1
    ways = options.only or over_topics(COUNTS, options.topics)
    return [Work(way, COUNTS[way] // part, topics) for way in ways for topics in options.topics or [0]]


def add_topics(parser: argparse.ArgumentParser) -> None:
    """The option `--topics`."""
    parser.add_argument(
        "--topics",
        action="append",
        type=at_least_one,
        metavar="N",
        help=f"{', '.join(OVER_TOPICS)} over so many topics; may be given more than once",
    )


def over_topics(ways: Iterable[str], topics: Sequence[int] | None) -> list[str]:
    """Those of the ways that are measured when none is named."""
    return [way for way in ways if not topics or way in OVER_TOPICS]


def check_topics(parser: argparse.ArgumentParser, ways: Iterable[str], topics: Sequence[int] | None) -> None:
    """Ends the program where a way does not go over topics."""
    if topics and not set(ways) <= set(OVER_TOPICS):
        parser.error(f"only {', '.join(OVER_TOPICS)} go over topics")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench cost", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--against", type=checkout, metavar="FOLDER", help="another checkout, measured beside this one"
    )
    parser.add_argument(
        "--rounds", type=at_least_one, default=7, metavar="N", help="measurements of each; default 7"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a twentieth of the messages; for a look, not a record"
    )
    parser.add_argument("--only", action="append", metavar="WAY", choices=list(COUNTS), help="some ways only")
    add_topics(parser)
    options = parser.parse_args(arguments)
    check_topics(parser, options.only or (), options.topics)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the measurement and prints the table."""
    options = _options(arguments)
    against = options.against
    print("microseconds for each message: here" + (", there, here / there (range)" if against else ""))
    for work in _works(options):
        rounds = []
        for number in range(options.rounds):
            print(f"{work.name}: round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
            rounds.append(_round(number, work, against))
        for spender in SPENDERS:
            print(_line(work.name, spender, rounds), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
