"""How much memory this process takes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Resident memory of this process, bytes.

    Linux says what it is now (`/proc/self/statm`, in pages); elsewhere it is the most that it has been (getrusage).
    """
    try:
        pages = int(STATM.read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return _peak_bytes()
    return pages * os.sysconf("SC_PAGE_SIZE")


def _peak_bytes() -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
