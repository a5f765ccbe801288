"""One clock for every process of a run, in seconds since 1970, that no skewed wall clock moves.

Linux and macOS count CLOCK_MONOTONIC from the same moment in every process, so one offset, measured by the runner and
handed on in the environment, makes their times compare with each other and with those of the server.
"""

from __future__ import annotations

import functools
import os
import time

OFFSET = "CHAOS_CLOCK"


def measured_offset() -> float:
    """The offset to add to the monotonic clock, in seconds. For the runner, which hands it on."""
    return time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)


@functools.cache
def _offset() -> float:
    given = os.environ.get(OFFSET)
    return float(given) if given else measured_offset()


def environment() -> dict[str, str]:
    """The environment variables with which a process of the run has the same `now()` as this one."""
    return {OFFSET: repr(_offset())}


def now() -> float:
    """Seconds since 1970."""
    return time.clock_gettime(time.CLOCK_MONOTONIC) + _offset()
