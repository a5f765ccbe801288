"""One body for several readers: a message that ten agent types of a process hear is unpacked once."""

from __future__ import annotations

from typing import Any

from .limits import Limits, unpack


class SharedBody:
    """What the readers of one body have in common: the data in it, from the first who asks to the last.

    Attributes:
        readers: those who have not asked yet.
    """

    __slots__ = ("_data", "_limits", "readers")

    def __init__(self) -> None:
        self.readers = 1
        self._data: Any = None
        self._limits: Limits | None = None  # with which the data were unpacked; None: there are none

    def unpacked(self, body: bytes, limits: Limits, is_nested: bool) -> Any:
        """The data of the body, for one reader, who must neither change nor keep them.

        Raises:
            DecodeError: see `unpack`.
        """
        self.readers -= 1
        if self._limits is limits:
            data = self._data
        else:
            data, self._limits = unpack(body, limits, is_nested=is_nested), limits
        if self.readers > 0:
            self._data = data
        else:
            self._data = self._limits = None
        return data
