"""The lock of a store's folder, for one process; the kernel drops it when the process ends, however it ends."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import Final

from callboard.memory.errors import StoreLockedError

logger = logging.getLogger("callboard.memory")

FILE: Final = "callboard.lock"
LOOK_EVERY: Final = 0.05  # seconds between two attempts at a lock that another process holds

_held: dict[Path, _Held] = {}
# Memories open and close in threads. Without this, one that closes could give the lock back between another's finding it
# in `_held` and counting itself among its users; and two that both find nothing would lock twice, the second in vain.
_guard = threading.Lock()


class _Held:
    """A lock of this process, and how many of its stores use it.

    Attributes:
        descriptor: of the lock file.
        number: how often the folder was deleted or replaced before while this process had it open.
        users: stores that use it.
    """

    def __init__(self, descriptor: int, number: int) -> None:
        self.descriptor = descriptor
        self.number = number
        self.users = 0

    def is_in(self, folder: Path) -> bool:
        """Whether the folder still has this very file."""
        try:
            return os.path.samestat((folder / FILE).stat(), os.fstat(self.descriptor))
        except FileNotFoundError:
            return False


class StoreLock:
    """The right to use a folder, shared by all stores in this process.

    On systems without `flock` (Windows) there is no guard.

    Args:
        folder: Of the store; it is made if it does not exist.
        patience: Seconds to wait for a process that has it, which may be about to end.

    Raises:
        StoreLockedError: another process keeps it.
        OSError: the folder can't be made or written.
    """

    def __init__(self, folder: Path, patience: float = 0.0) -> None:
        self._folder = folder.resolve()
        deadline = time.monotonic() + patience
        while (held := self._take()) is None:
            if time.monotonic() >= deadline:
                raise StoreLockedError(str(self._folder), _holder(self._folder / FILE))
            time.sleep(LOOK_EVERY)
        self._mine: _Held | None = held

    @property
    def number(self) -> int:
        """How often the folder was deleted or replaced before while this process had it open."""
        return 0 if self._mine is None else self._mine.number

    def is_there(self) -> bool:
        """Whether the folder is still the one that was locked; one that was deleted or replaced is not."""
        return self._mine is not None and self._mine.is_in(self._folder)

    def release(self) -> None:
        """Give the right back; the last user in this process lets other processes in. Safe to repeat."""
        with _guard:
            held, self._mine = self._mine, None
            if held is None:
                return
            held.users -= 1
            if not held.users:
                if _held.get(self._folder) is held:
                    del _held[self._folder]
                os.close(held.descriptor)

    def _take(self) -> _Held | None:
        with _guard:
            held = _held.get(self._folder)
            number = 0 if held is None else held.number
            if held is not None and not held.is_in(self._folder):
                logger.error(
                    "the memory in %s was deleted or replaced while it was open: what it held is gone from there, "
                    "and what is remembered from now on goes to what is there now",
                    self._folder,
                )
                held, number = None, number + 1
            if held is None:
                descriptor = _locked(self._folder)
                if descriptor is None:
                    return None
                held = _held[self._folder] = _Held(descriptor, number)
            held.users += 1
            return held


def _locked(folder: Path) -> int | None:
    """A descriptor of the lock file that holds the lock; None when another process has it."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / FILE, os.O_RDWR | os.O_CREAT, 0o600)
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
    os.truncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())
    return descriptor


def _holder(file: Path) -> str:
    try:
        pid = file.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        pid = ""
    return f"process {pid}" if pid.isdecimal() else "another process"
