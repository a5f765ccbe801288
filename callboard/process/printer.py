"""Printing that never holds up its caller.

A process that keeps others running, or handles messages, must be able to stop although its terminal was closed or
no process reads the pipe that it writes to. A plain print would raise there, or wait for ever, and with it the event loop
that was to see the signal. Here a thread does the writing, and the rest of the process only hands over what to write.
"""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from typing_extensions import Buffer


MOST_WAITING = 1024 * 1024  # bytes that wait to be written; what comes beyond them is left out
CATCH_UP = 0.2  # seconds that a flush waits for the writing thread, while it gets on
LAST_WORDS = 1.0  # seconds that the last lines get when printing ends
NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors that pass: what comes when the disk is full is lost, and what comes later is not."""


class Outlet:
    """The way out to one descriptor. Any thread may use it.

    Attributes:
        is_closed: The reader is gone: a write failed, and nothing is written any more.
        is_stuck: A printing thread waited in vain, and nothing was written since.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._left_out = 0
        self._lost = 0  # for want of room, and not told of yet
        self._thread: threading.Thread | None = None
        self.is_closed = False
        self.is_stuck = False

    @property
    def is_busy(self) -> bool:
        """Whether something is not written yet."""
        return self._size > 0 or self._left_out > 0

    def put(self, data: bytes) -> None:
        """Has it written, soon; never waits and never raises."""
        # A process that was forked has our memory, and not our thread.
        if os.getpid() != self._process:
            with contextlib.suppress(OSError):
                self._write(data)
            return
        with self._changed:
            if self.is_closed:
                return
            if self._size and self._size + len(data) > MOST_WAITING:
                self._left_out += 1
                return
            self._waiting.append(data)
            self._size += len(data)
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="callboard-printing", daemon=True)
                self._thread.start()

    def settle(self, seconds: float) -> None:
        """Waits until all is written, at most so long."""
        if os.getpid() != self._process:
            return
        with self._changed:
            self.is_stuck = not self._changed.wait_for(lambda: not self.is_busy, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._left_out)
                data, pieces = self._next()
            problem = 0
            try:
                self._write(data)
            except OSError as error:  # a broken pipe, a terminal that was closed, or a disk that is full
                problem = error.errno or errno.EIO
            with self._changed:
                self._note_written(pieces, problem)

    def _next(self) -> tuple[bytes, int]:
        """The bytes to be written now, and how many pieces they are."""
        if self._left_out:
            told = (
                b"callboard: %d pieces of output were left out: nobody read them, or there was no room\n"
                % self._left_out
            )
            self._waiting.append(told)
            self._size += len(told)
            self._left_out = 0
        data, pieces = b"".join(self._waiting), len(self._waiting)
        self._waiting.clear()
        return data, pieces

    def _note_written(self, pieces: int, problem: int) -> None:
        self._size = sum(map(len, self._waiting))
        self.is_stuck = False
        self.is_closed = problem != 0 and problem not in NO_ROOM
        if self.is_closed:
            self._waiting.clear()
            self._size = self._left_out = 0
        elif problem:
            self._lost += pieces
        else:
            self._left_out, self._lost = self._left_out + self._lost, 0
        self._changed.notify_all()

    def _write(self, data: bytes) -> None:
        """Waits for the reader.

        Raises:
            OSError: There is none any more, or no room.
        """
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # another process set the descriptor, which we share, to be like this
                threading.Event().wait(0.01)


class _Bytes(io.BufferedIOBase):
    """An outlet as a file of bytes."""

    def __init__(self, outlet: Outlet, descriptor: int, name: str) -> None:
        super().__init__()
        self.name = name
        self._outlet = outlet
        self._descriptor = descriptor

    def write(self, data: Buffer, /) -> int:
        raw = bytes(data)
        self._outlet.put(raw)
        return len(raw)

    def flush(self) -> None:
        # A reader that keeps it waiting is waited for once.
        if not self._outlet.is_stuck:
            self._outlet.settle(CATCH_UP)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)


@contextlib.contextmanager
def unhindered() -> Iterator[None]:
    """Within it, printing and logging to stdout and stderr never wait for a reader, and never fail for want of one.

    Unread output is kept up to `MOST_WAITING` bytes, or one text that is longer; then lines are left out, and their
    number is told as soon as it is read again. So it is with what comes while a disk is full. Once the reader is gone,
    they are dropped. The rest is written within `LAST_WORDS` seconds at the end, if it is read.
    """
    outlets: dict[tuple[int, int], Outlet] = {}
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = [_unhindered(stream, outlets) for stream in before]
    _log_to(before[1], sys.stderr)
    try:
        yield
    finally:
        for outlet in outlets.values():
            outlet.settle(LAST_WORDS)
        _log_to(sys.stderr, before[1])
        sys.stdout, sys.stderr = before


def _unhindered(stream: TextIO, outlets: dict[tuple[int, int], Outlet]) -> TextIO:
    try:
        stream.flush()
        descriptor = stream.fileno()
        status = os.fstat(descriptor)
    except (AttributeError, OSError):
        return stream  # it was closed before this process began, or is no file, as in a test
    # One way out for both where they are the same file, so that lines stay in the order in which they were printed.
    outlet = outlets.setdefault((status.st_dev, status.st_ino), Outlet(descriptor))
    binary = _Bytes(outlet, descriptor, stream.name)
    return io.TextIOWrapper(binary, stream.encoding, stream.errors, write_through=True)


def _log_to(before: TextIO, after: TextIO) -> None:
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is before:
            handler.setStream(after)
