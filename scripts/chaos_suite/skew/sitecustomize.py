"""Makes the wall clock of one process wrong, where libfaketime is not installed; where it is, lets the process sleep.

Python imports a module of this name when it starts, so the processes that are to be wrong get this folder on their
path. Only what asks through `time.time` is fooled, which is what Callboard and its handlers do; libfaketime fools all.
"""

from __future__ import annotations

import os
import select
import time
from typing import SupportsIndex

SECONDS = "CHAOS_SKEW"


def _skew(seconds: float) -> None:
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + seconds
    time.time_ns = lambda: real_ns() + int(seconds * 1e9)


def _sleep(seconds: float | SupportsIndex) -> None:
    """Libfaketime 0.9.10, told to leave the monotonic clock alone, refuses to sleep up to a moment of it, as Python does."""
    select.select([], [], [], float(seconds))


if os.environ.get("FAKETIME"):
    time.sleep = _sleep
if os.environ.get(SECONDS):
    _skew(float(os.environ[SECONDS]))
