"""The console as a page that is written from top to bottom."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import unicodedata
from typing import Final

from callboard.foundation.printable import one_line
from callboard.foundation.threads import in_thread

RULE: Final = "-" * 10
ELLIPSIS: Final = "…"
WIDE: Final = "WF"  # of east_asian_width: two columns
GONE: Final = (errno.EPIPE, errno.EIO, errno.EBADF)


class Page:
    """Stdout, written by threads: a slow reader holds up the run that is shown, and not the event loop.

    When nobody reads any more (a pipe without its reader, a terminal that was closed), or there is no stdout, nothing is
    written, and the run goes on.
    """

    def __init__(self) -> None:
        self._is_gone = False
        self._is_in_line = False

    @property
    def shows_images(self) -> bool:
        """Whether it is a terminal that shows pictures as iTerm2 does."""
        return os.environ.get("TERM_PROGRAM") == "iTerm.app" and _is_terminal()

    async def heading(self, title: str) -> None:
        """Begin a new part; the title is cut where a terminal is too narrow for it."""
        room = _columns() - 2 * len(RULE) - 2
        await self.lines(f"{RULE} {_cut(one_line(title), room)} {RULE}")

    async def lines(self, text: str) -> None:
        """Write whole lines.

        Args:
            text: Without control characters but ends of lines and tabs, unless they are meant.
        """
        await self.end_line()
        await self._write(f"{text}\n")

    async def piece(self, text: str) -> None:
        """Go on with the line."""
        await self._write(text)
        if text:
            self._is_in_line = not text.endswith("\n")

    async def end_line(self) -> None:
        """End the line, if one has begun."""
        if self._is_in_line:
            await self.piece("\n")

    async def _write(self, text: str) -> None:
        # `sys.stdout` is None where there is no console at all, whatever its type says.
        if text and not self._is_gone and getattr(sys, "stdout", None) is not None:
            self._is_gone = not await in_thread("callboard-console", lambda: _print(text))


def _print(text: str) -> bool:
    """Whether there was somebody to read it."""
    out = sys.stdout
    if out.closed:
        return False
    encoding = out.encoding or "utf-8"
    try:
        out.write(text.encode(encoding, "backslashreplace").decode(encoding))
        out.flush()
    except OSError as error:
        if error.errno not in GONE:
            raise
        return False
    return True


def _is_terminal() -> bool:
    return getattr(sys, "stdout", None) is not None and not sys.stdout.closed and sys.stdout.isatty()


def _columns() -> int:
    return shutil.get_terminal_size().columns if _is_terminal() else sys.maxsize


def _cut(text: str, columns: int) -> str:
    """A text that takes at most so many columns, and at least one."""
    if sum(map(_width, text)) <= columns:
        return text
    kept, room = "", columns - len(ELLIPSIS)
    for char in text:
        room -= _width(char)
        if room < 0:
            break
        kept += char
    return kept + ELLIPSIS


def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in WIDE else 1
