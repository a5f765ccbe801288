"""A file that says that a worker lives, for container platforms: renewed with each beat that the server answered."""

from __future__ import annotations

import contextlib
import logging
import time
from pathlib import Path

logger = logging.getLogger("callboard.broker")


class HealthFile:
    """The file of one worker. Used in the heartbeat's thread, so that a handler that blocks the event loop makes nobody ill.

    Args:
        path: Where; its folder has to be there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._complained = False

    def renew(self, worker: str) -> None:
        """Its lease was extended a moment ago. A file that can't be written costs the worker nothing but the file."""
        try:
            self._path.write_text(f"{worker}\n", encoding="utf-8")
        except OSError as error:
            if not self._complained:
                logger.warning("the health file %s can't be written: %s", self._path, error)
            self._complained = True

    def remove(self) -> None:
        """The worker has stopped."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


def age(path: Path) -> float | None:
    """Seconds since a health file was renewed; None: there is none."""
    try:
        return max(0.0, time.time() - path.stat().st_mtime)
    except OSError:
        return None
