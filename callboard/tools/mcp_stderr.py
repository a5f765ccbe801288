"""What a server that runs as a process says on its standard error: passed on, and its end kept for errors."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from types import TracebackType
from typing import Final, Self, TextIO

KEPT: Final = 2_000  # bytes of its end
CHUNK: Final = 65_536  # bytes
PATIENCE: Final = 1.0  # seconds that the rest of it may take to arrive once the process has ended
STDERR: Final = 2


class StderrTail:
    """A pipe for the standard error of a process.

    A thread reads it, and not the event loop: what it is passed on to may be a terminal that stands still. As a context
    manager it ends its half of the pipe; the thread ends with the last process that has the other one.

    Attributes:
        file: The end for the process.
    """

    def __init__(self) -> None:
        self._read, write = os.pipe()
        self.file: TextIO = os.fdopen(write, "w")
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._pass_on, name="callboard-mcp-stderr", daemon=True)
        self._thread.start()

    def begun(self) -> None:
        """The process has its end: without ours the pipe ends when the process does."""
        self.file.close()

    async def text(self) -> str:
        """The last lines, once the process has ended; "" when it said nothing."""
        await asyncio.to_thread(self._thread.join, PATIENCE)
        return bytes(self._kept).decode(errors="replace").strip()

    def _pass_on(self) -> None:
        with os.fdopen(self._read, "rb", buffering=0) as pipe:
            while data := pipe.read(CHUNK):
                self._kept += data
                del self._kept[:-KEPT]
                with contextlib.suppress(OSError):  # our own standard error may be closed
                    os.write(STDERR, data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()
