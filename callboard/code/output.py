"""The output of code, as much of it as is kept."""

from __future__ import annotations

from collections import deque


class KeptOutput:
    """Takes bytes, keeps those of the beginning and those of the end.

    Args:
        kept: Bytes to keep: half from each end.
    """

    def __init__(self, kept: int) -> None:
        self._half = max(1, kept // 2)
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.size = 0

    def add(self, data: bytes) -> None:
        """Take what came next."""
        self.size += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= self._half:
            self._tail_size -= len(self._tail.popleft())

    def text(self) -> str:
        """What is kept, as text; between its two parts it says how much was left out.

        What is not UTF-8, and the character NUL, which many a store refuses, are shown as U+FFFD.
        """
        tail = b"".join(self._tail)[-self._half :]
        left_out = self.size - len(self._head) - len(tail)
        if left_out == 0:
            return _readable(bytes(self._head) + tail)
        return f"{_readable(self._head)}\n[... {left_out} bytes of output left out ...]\n{_readable(tail)}"


def _readable(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")
