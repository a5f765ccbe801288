"""Puts Callboard under fire and checks its promise.

It starts servers, worker processes and publishers of its own, does to them what machines, networks and people do, and
then reads the streams and a log of the handlers' effects to see whether every acknowledged message took effect once, in
order, one at a time; and what stands on that: teams, memories, and what commands say. docs/reliability.md says what each
fault does and what is expected.

  scripts/chaos                        everything, about 90 seconds
  scripts/chaos --list                 what there is
  scripts/chaos --only kill-worker     one fault; may be repeated
  scripts/chaos --bank                 accounts that pass money on while everything fails at once, three minutes
  scripts/chaos --soak 30              then faults at random, several at once, for 30 minutes
  scripts/chaos --seed 17              the same faults again; without it a new seed is drawn, and printed
  scripts/chaos --keep /tmp/logs       keeps the logs and the history (history.jsonl) of every act there

Exit codes: 0 the promise held, 1 it was broken, or with --strict a figure is above what is expected, 2 wrong use,
130 interrupted. Ctrl-C ends every process and removes every file. Where the promise was broken the logs are kept.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.servers import missing

from . import plan
from .bank.run import run_bank
from .faults import all_faults
from .progress import Bars, Lines, shown
from .report import holds, in_time, report, table
from .runner import ActResult, run_act, run_lanes

INTERRUPTED = 130
BANK_SECONDS = 180


def main() -> int:
    """Runs what the command line says; returns the exit code."""
    options = _parser().parse_args()
    if options.list:
        print(_list())
        return 0
    if options.server and (reason := missing(options.server)):
        print(f"scripts/chaos: {reason}", file=sys.stderr)
        return 2
    seed = random.randrange(100_000) if options.seed is None else options.seed
    print(f"seed {seed}", file=sys.stderr, flush=True)
    try:
        with _folder(options.keep) as folder, shown() as progress:
            results = asyncio.run(_carry_out(options, seed, folder, progress))
            if not holds(results) and options.keep is None:
                _keep(folder)
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("interrupted: every process has been ended", file=sys.stderr)
        return INTERRUPTED
    print(report(results, seed))
    return 0 if holds(results) and (in_time(results) or not options.strict) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--soak", type=float, metavar="MINUTES", help="go on with mixed faults for so long; a full check: 30"
    )
    parser.add_argument(
        "--bank",
        type=float,
        nargs="?",
        const=BANK_SECONDS,
        metavar="SECONDS",
        help=f"the bank instead of single faults, for so long; default: {BANK_SECONDS}",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="draw the faults from this seed")
    parser.add_argument(
        "--only",
        action="append",
        metavar="FAULT",
        choices=sorted(all_faults()),
        help="one fault alone; --list shows them",
    )
    parser.add_argument("--list", action="store_true", help="show the faults and end")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep logs and histories there")
    parser.add_argument(
        "--server",
        choices=("redis", "embedded"),
        help="redis-server, or the embedded valkey-server; default: redis-server where it is installed",
    )
    parser.add_argument(
        "--strict", action="store_true", help="fail as well when a figure is above what is expected"
    )
    return parser


def _list() -> str:
    rows = [(name, cls.act, cls.summary) for name, cls in all_faults().items()]
    return table(("fault", "act", "what it does"), rows)


async def _carry_out(
    options: argparse.Namespace, seed: int, folder: Path, progress: Lines | Bars
) -> list[ActResult]:
    task = asyncio.current_task()
    if task is not None:  # as Ctrl-C does
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    lanes = plan.only(seed, options.only) if options.only else plan.whole(seed)
    if options.bank is not None:
        return await _bank(options, seed, folder)
    results = await run_lanes(lanes, folder, progress, options.server)
    if options.soak:
        results += await _soak(options, seed, folder, progress)
    return results


async def _bank(options: argparse.Namespace, seed: int, folder: Path) -> list[ActResult]:
    """Half of the time the server keeps what it acknowledged, half of it it loses tails as well."""
    results = []
    for forgets in (False, True):
        result, told = await run_bank(folder, seed, options.bank / 2, options.server, forgets=forgets)
        print(f"{result.name}: {told}", file=sys.stderr, flush=True)
        results.append(result)
    return results


async def _soak(
    options: argparse.Namespace, seed: int, folder: Path, progress: Lines | Bars
) -> list[ActResult]:
    ends = time.monotonic() + 60 * options.soak
    results: list[ActResult] = []
    for act in plan.soak(seed + 1):
        if time.monotonic() > ends:
            break
        results.append(await run_act(act, folder, progress, options.server))
    return results


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Where everything is written: a folder that stays, or one that goes."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield Path(tempfile.mkdtemp(prefix="run-", dir=keep))
        return
    with tempfile.TemporaryDirectory(prefix="callboard-chaos-") as name:
        yield Path(name)


def _keep(folder: Path) -> None:
    kept = shutil.copytree(folder, tempfile.mkdtemp(prefix="callboard-chaos-kept-"), dirs_exist_ok=True)
    print(f"the logs are kept in {kept}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
