"""Makes the wall clock of one process wrong, where libfaketime is not installed.

Python imports a module of this name when it starts, so the processes that are to be wrong get this folder on their
path. Only what asks through `time.time` is fooled, which is what Callboard and its handlers do; libfaketime fools all.
"""

from __future__ import annotations

import os
import time

SECONDS = "CHAOS_SKEW"


def _skew(seconds: float) -> None:
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + seconds
    time.time_ns = lambda: real_ns() + int(seconds * 1e9)


if os.environ.get(SECONDS):
    _skew(float(os.environ[SECONDS]))
