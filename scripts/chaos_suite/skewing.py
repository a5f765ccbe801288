"""Makes the clock of a process wrong: with libfaketime where it is installed, else by patching `time.time`."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from tests.helpers.processes import ROOT

LIBRARY = "libfaketime.so.1"
FOLDERS = ("/usr/lib", "/usr/local/lib", "/usr/lib64")
CHAOS_SKEW = "CHAOS_SKEW"  # read by skew/sitecustomize.py


@functools.cache
def faketime_library() -> Path | None:
    """Where libfaketime is, if it is anywhere; FAKETIME_LIBRARY may say so."""
    given = os.environ.get("FAKETIME_LIBRARY")
    if given:
        return Path(given)
    found = (path for folder in FOLDERS for path in Path(folder).glob(f"**/faketime/{LIBRARY}"))
    return next(found, None)


def skewed(seconds: float) -> dict[str, str]:
    """Variables of a process whose wall clock is to be wrong by so many seconds. Its monotonic clock stays right."""
    library = faketime_library()
    folder = Path(__file__).parent / "skew"
    path = {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}
    if library is not None:
        # The name of the second variable differs between versions.
        return path | {
            "LD_PRELOAD": str(library),
            "FAKETIME": f"{seconds:+.0f}",
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
    return path | {CHAOS_SKEW: repr(seconds)}
