"""Runs again, alone, what failed when every test ran at once.

Tests of real processes share a machine with all the others, and on a loaded one a bound of time may be too short. A test
that is right passes alone; one that fails twice fails. More than a few failures are no matter of load: they stand.

A race passes alone too, nearly always. So each test that needed this is written down with the day, and when it needs it
again within some weeks it fails: then the race is mended, or the bound of time gets longer. A clean clone has no such
record, so that one bad moment of a machine fails no test there. The record is in the folder of git, where all
worktrees of a clone have the same one.

Usage: python -m scripts.second_look PYTEST-ARGUMENTS, after pytest has run with the same arguments.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

CACHE = Path(".pytest_cache")
FAILED = CACHE / "v/cache/lastfailed"
RECORD = "callboard-second-looks"
MOST = 3
DAYS = 30


def main(arguments: list[str]) -> int:
    """Returns the exit code that the whole run has."""
    failed = _failed()
    if not 0 < len(failed) <= MOST:
        return 1
    print(f"\n== a second look, alone, at what failed: {', '.join(sorted(failed))}", flush=True)
    command = [sys.executable, "-m", "pytest", *arguments, "--last-failed", "-n", "0"]
    code = subprocess.run(command, check=False).returncode
    # What pytest did not run, as it failed in another run with other arguments, is still among those that failed.
    passed = sorted(failed - _failed())
    again = needed_before(passed)
    for test in passed:
        _say(test, again.get(test, []))
    return code or (1 if again else 0)


def _failed() -> set[str]:
    return set(json.loads(FAILED.read_text("utf-8"))) if FAILED.exists() else set()


def needed_before(tests: Collection[str]) -> dict[str, list[str]]:
    """Adds tests to the record; returns those that needed a second look lately, with the days."""
    record = folder() / RECORD
    lines = record.read_text("utf-8").splitlines() if record.exists() else []
    today = dt.datetime.now(dt.UTC).date()
    oldest = str(today - dt.timedelta(DAYS))
    known: dict[str, list[str]] = {}
    for day, _, test in (line.partition(" ") for line in lines):
        if day >= oldest and test in tests:
            known.setdefault(test, []).append(day)
    with record.open("a", encoding="utf-8") as file:
        file.writelines(f"{today} {test}\n" for test in tests)
    return known


def folder() -> Path:
    """The folder of git that all worktrees share; where git knows none, that of pytest's cache."""
    command = ["git", "rev-parse", "--path-format=absolute", "--git-common-dir"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:  # git is not installed
        return CACHE
    return Path(done.stdout.strip()) if done.returncode == 0 else CACHE


def _say(test: str, before: list[str]) -> None:
    line = "=" * 100
    advice = f"Look at it: a race, or a bound of time that is too short. Within {DAYS} days it may not happen again."
    if before:
        advice = (
            f"It did so before, on {', '.join(before)}: this run FAILS. Mend the race, or lengthen the bound of time; "
            f"then take its lines out of {folder() / RECORD}."
        )
    print(f"\n{line}\npassed alone, failed beside others: {test}\n{advice}\n{line}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
