"""Looks for a way to break the promise: exactly once in effect, in order, by one activation at a time.

What the tests do in seconds is done here for as long as wanted. docs/proof.md says what is checked and what was measured.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from .fuzz import run_fuzz
from .history import run_history
from .mutations import run_mutations
from .schedules import run_exploration, run_schedules


def main() -> int:
    """Runs what was asked for; 1 when something is wrong."""
    parser = _parser()
    options = parser.parse_args()
    seed = options.seed or os.urandom(4).hex()
    parts: list[Callable[[], bool]] = []
    if options.explore is not None:
        parts.append(lambda: run_exploration(options.explore))
    if options.schedules:
        parts.append(lambda: run_schedules(options.schedules, seed, options.jobs))
    if options.mutations:
        parts.append(lambda: run_mutations(options.jobs))
    if options.history:
        parts.append(lambda: run_history(options.history, seed))
    if options.fuzz:
        parts.append(lambda: run_fuzz(options.fuzz, seed))
    if not parts:
        parser.print_help()
        return 2
    results = [part() for part in parts]
    return 0 if all(results) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/proof", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--schedules", type=int, metavar="NUMBER", help="random schedules, such as 100000")
    parser.add_argument(
        "--explore",
        type=int,
        nargs="?",
        const=1,
        choices=(0, 1, 2),
        metavar="ACCIDENTS",
        help="every interleaving of 2 workers and 3 messages with up to so many accidents: 0, 1 (default) or 2",
    )
    parser.add_argument(
        "--mutations", action="store_true", help="every way of breaking the code that is listed"
    )
    parser.add_argument(
        "--history",
        type=float,
        metavar="SECONDS",
        help="real processes under mixed faults; their history is checked",
    )
    parser.add_argument(
        "--fuzz", type=float, metavar="MINUTES", help="the codec, guided by its branches; needs atheris"
    )
    parser.add_argument("--seed", default="", help="repeats what a run with this seed did")
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="NUMBER",
        help="processes; default one for each core",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
