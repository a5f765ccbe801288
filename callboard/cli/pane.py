"""Lines that stay at the bottom of a terminal, while others scroll above them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from typing import Final, TextIO

REMEMBERED: Final = 200  # lines above the pane that are shown again after a resize
USUAL_SIZE: Final = os.terminal_size((80, 24))

UP, CLEAR_BELOW, CLEAR_ALL = "\x1b[{}A", "\x1b[J", "\x1b[H\x1b[2J"


class Pane:
    """Draws lines at the bottom of a terminal, and draws them again when they change or the terminal is resized.

    After a resize nobody knows where on the screen the old lines are: some terminals break long lines anew, others cut them.
    So the screen is cleared then, and what stood on it is written again. Once the terminal is closed, nothing is shown.

    Args:
        stream: Writes to a terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._above: deque[str] = deque(maxlen=REMEMBERED)
        self._size = self.size()
        self._drawn = 0
        self._is_gone = False

    def size(self) -> os.terminal_size:
        """Columns and lines of the terminal."""
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            return USUAL_SIZE
        return size if size.columns and size.lines else USUAL_SIZE

    def draw(self, lines: Sequence[str], above: Sequence[str] = ()) -> None:
        """Shows these lines instead of the ones before.

        Args:
            lines: None of them wider than the terminal; those that it has no room for are left out.
            above: Lines that come to stand above them, of any width.
        """
        self._above += above
        size = self.size()
        if size == self._size:
            text = self._erase() + "".join(f"{line}\r\n" for line in above)
        else:
            self._size = size
            text = CLEAR_ALL + "".join(f"{line}\r\n" for line in self._last(size, len(lines)))
        shown = lines[: max(1, size.lines - 1)]
        self._drawn = len(shown)
        self._write(text + "\r\n".join(shown))

    def close(self) -> None:
        """Leaves the lines where they are; what is written next comes below."""
        if self._drawn:
            self._write("\r\n")
        self._drawn = 0

    def _write(self, text: str) -> None:
        if self._is_gone:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            # The terminal was closed: there is nobody to show anything to, and what is shown must go on without it.
            self._is_gone = True

    def _erase(self) -> str:
        if not self._drawn:
            return ""
        return "\r" + (UP.format(self._drawn - 1) if self._drawn > 1 else "") + CLEAR_BELOW

    def _last(self, size: os.terminal_size, taken: int) -> list[str]:
        """The last lines above, as many as a screen of this size has room for."""
        room, chosen = size.lines - taken - 1, list[str]()
        for line in reversed(self._above):
            room -= max(1, -(-len(line) // size.columns))
            if room < 0:
                break
            chosen.append(line)
        return chosen[::-1]
