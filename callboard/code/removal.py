"""Deleting a folder whatever was made in it: folders without rights, and folders deeper than any path may be long."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_folder(folder: Path) -> None:
    """Delete a folder and everything in it, without following links. That it is gone already is no matter.

    Folders in folders are moved to the top before they are emptied, so that no depth is too deep.

    Raises:
        OSError: Something can't be deleted.
    """
    with contextlib.suppress(FileNotFoundError):
        top = os.open(folder, _FOLDER)
        try:
            _Removal(top).run()
        finally:
            os.close(top)
        folder.rmdir()


class _Removal:
    def __init__(self, top: int) -> None:
        self._top = top
        self._prefix = secrets.token_hex(16)
        self._made = 0
        self._waiting: list[str] = []

    def run(self) -> None:
        self._empty(self._top)
        while self._waiting:
            name = self._waiting.pop()
            inner = os.open(name, _FOLDER, dir_fd=self._top)
            try:
                self._empty(inner)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=self._top)

    def _empty(self, place: int) -> None:
        with os.scandir(place) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for name, is_folder in found:
            if is_folder:
                self._move(name, place)
            else:
                os.unlink(name, dir_fd=place)

    def _move(self, name: str, place: int) -> None:
        self._made += 1
        new = f"{self._prefix}-{self._made}"
        os.chmod(name, 0o700, dir_fd=place)
        os.rename(name, new, src_dir_fd=place, dst_dir_fd=self._top)
        self._waiting.append(new)
