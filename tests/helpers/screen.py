"""What a terminal would show: a screen that follows the codes which our board writes, and a command that runs on one."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

CODES = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])")


class Screen:
    """Lines of text, a cursor, and what goes out at the top.

    Args:
        columns: Its width.
        lines: Its height.
        reflows: After a resize long lines are broken anew, as many terminals do; else they are cut.
    """

    def __init__(self, columns: int, lines: int = 24, *, reflows: bool = True) -> None:
        self.columns, self.lines, self._reflows = columns, lines, reflows
        self.rows = [""]
        self.line = self.column = 0
        self._unread = ""

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.rows).rstrip()

    def feed(self, text: str) -> None:
        """What a program writes."""
        text, self._unread, at = self._unread + text, "", 0
        while at < len(text):
            if text[at] == "\x1b":
                code = CODES.match(text, at)
                if code is None:
                    self._unread = text[at:]
                    return
                self._obey(code[2], code[3])
                at = code.end()
                continue
            self._put(text[at])
            at += 1

    def resize(self, columns: int) -> None:
        """The window gets another width."""
        cut = [row.rstrip()[:columns] for row in self.rows]
        broken = [
            row.rstrip()[i : i + columns]
            for row in self.rows
            for i in range(0, max(1, len(row.rstrip())), columns)
        ]
        self.rows = broken if self._reflows else cut
        self.line = len(self.rows) - 1
        self.columns, self.column = columns, min(self.column, columns - 1)
        self._scroll()

    def _put(self, one: str) -> None:
        if one == "\r":
            self.column = 0
        elif one == "\n":
            self._down()
        else:
            if self.column >= self.columns:
                self.column = 0
                self._down()
            row = self.rows[self.line].ljust(self.column)
            self.rows[self.line] = row[: self.column] + one + row[self.column + 1 :]
            self.column += 1

    def _down(self) -> None:
        self.line += 1
        if self.line == len(self.rows):
            self.rows.append("")
        self._scroll()

    def _scroll(self) -> None:
        while len(self.rows) > self.lines:
            self.rows.pop(0)
            self.line -= 1

    def _obey(self, numbers: str, letter: str) -> None:
        if letter == "A":
            self.line = max(0, self.line - int(numbers or 1))
        elif letter == "H":
            self.line = self.column = 0
        elif letter == "J" and numbers == "2":
            self.rows = [""] * (self.line + 1)
        elif letter == "J":
            self.rows[self.line] = self.rows[self.line][: self.column]
            del self.rows[self.line + 1 :]
        elif letter == "K":
            self.rows[self.line] = self.rows[self.line][: self.column]
        else:
            assert letter in "mhl", f"a code that this screen does not know: {numbers}{letter}"


class Terminal:
    """A pseudo-terminal with a screen; `stream` writes to it."""

    def __init__(self, columns: int, *, reflows: bool = True) -> None:
        self.screen = Screen(columns, reflows=reflows)
        self.ours, self.theirs = pty.openpty()
        self.stream = os.fdopen(self.theirs, "w")
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # a read may end within a character
        self._set_size(columns)

    def _set_size(self, columns: int) -> None:
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", self.screen.lines, columns, 0, 0))

    def resize(self, columns: int) -> None:
        self.read()
        self.screen.resize(columns)
        self._set_size(columns)

    def read(self) -> str:
        """The screen with all that was written so far."""
        while select.select([self.ours], [], [], 0)[0]:
            try:
                chunk = os.read(self.ours, 65_536)
            except OSError:  # its other side is closed
                break
            if not chunk:
                break
            self.screen.feed(self._decoder.decode(chunk))
        return self.screen.text

    def shows(self, condition: Callable[[str], object], within: float = 20) -> str:
        """Waits until the screen is as it should be; returns it."""
        deadline = time.monotonic() + within
        while not condition(text := self.read()):
            assert time.monotonic() < deadline, f"not on the screen:\n{text}"
            time.sleep(0.02)
        return text

    def close(self) -> None:
        self.stream.close()
        os.close(self.ours)


@contextlib.contextmanager
def terminal(columns: int, *, reflows: bool = True) -> Iterator[Terminal]:
    made = Terminal(columns, reflows=reflows)
    try:
        yield made
    finally:
        made.close()


def shown_by(command: Sequence[str], columns: int, folder: Path, environ: Mapping[str, str]) -> str:
    """The screen after a command has ended."""
    with terminal(columns) as made:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**environ, "TERM": "xterm"},
            stdin=subprocess.DEVNULL,
            stdout=made.theirs,
            stderr=made.theirs,
        )
        deadline = time.monotonic() + 30
        while process.poll() is None:
            made.read()
            assert time.monotonic() < deadline, made.read()
            time.sleep(0.02)
        return made.read()
