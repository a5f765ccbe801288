"""The folder that code works in."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

from .environment import HOME
from .removal import remove_folder


class WorkFolder:
    """A given folder, or a temporary one that is removed.

    Args:
        given: The folder; None: a temporary one.
    """

    def __init__(self, given: Path | str | None) -> None:
        self._given = None if given is None else Path(given).resolve()
        if self._given == Path.cwd():
            message = "Using the current folder as work_dir is deprecated: code may change all that is in it."
            warnings.warn(message, DeprecationWarning, stacklevel=3)
        self._own: Path | None = None

    @property
    def given(self) -> str | None:
        """The path of the given folder."""
        return None if self._given is None else str(self._given)

    def open(self) -> Path:
        """The folder, made where it is missing: code may have deleted it."""
        folder = self._given or self._own
        if folder is None or (folder == self._own and not folder.is_dir()):
            self._own = folder = Path(tempfile.mkdtemp(prefix="callboard-code-")).resolve()
        (folder / HOME).mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def remove(self) -> None:
        """Remove a temporary folder and all that is in it."""
        own, self._own = self._own, None
        if own is not None:
            remove_folder(own)
