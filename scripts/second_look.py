"""Runs again, alone, what failed when every test ran at once.

Tests of real processes share a machine with all the others, and on a loaded one a bound of time may be too short. A test
that is right passes alone; one that fails twice fails. What failed once is named at the end, so that somebody looks at
it. More than a few failures are no matter of load: they stand.

Usage: python -m scripts.second_look PYTEST-ARGUMENTS, after pytest has run with the same arguments.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FAILED = Path(".pytest_cache/v/cache/lastfailed")
MOST = 3


def main(arguments: list[str]) -> int:
    """Returns the exit code that the whole run has."""
    failed = sorted(json.loads(FAILED.read_text("utf-8"))) if FAILED.exists() else []
    if not 0 < len(failed) <= MOST:
        return 1
    print(f"\n== a second look, alone, at what failed: {', '.join(failed)}", flush=True)
    command = [sys.executable, "-m", "pytest", *arguments, "--last-failed", "-n", "0"]
    code = subprocess.run(command, check=False).returncode
    if code == 0:
        print(f"\n== passed alone, failed beside others; look at it: {', '.join(failed)}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
