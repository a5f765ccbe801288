"""Files of code in a work folder, written so that nothing that lies in the folder already leads out of it."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

__all__ = ["OutsideError", "delete", "named_file", "write_code"]

MARK = "# filename:"
LONGEST_NAME = 200
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OutsideError(Exception):
    """The name that code gives its file does not lie inside the work folder. Caught by the executor."""


def named_file(code: str, folder: Path) -> PurePosixPath | None:
    """The file that code names in its first line (`# filename: name.py`), relative to the folder; None without one.

    Raises:
        OutsideError: It leads out of the folder, or can't be a name.
    """
    first = code.split("\n", 1)[0]
    if not first.startswith(MARK):
        return None
    name = PurePosixPath(first.removeprefix(MARK).strip())
    if name.is_absolute():
        try:
            name = name.relative_to(folder)
        except ValueError:
            raise OutsideError from None
    if not name.parts or any(not _is_plain(part) for part in name.parts):
        raise OutsideError
    return name


def write_code(folder: Path, code: str, name: PurePosixPath | None, suffix: str) -> PurePosixPath:
    """Write code to a new file; returns its name in the folder.

    Args:
        folder: The work folder.
        code: The code. What can't be encoded (half of a surrogate pair) becomes a question mark.
        name: The file, relative to the folder. What has this name is replaced, never written through: it may be a link.
            None: a name made of the code.
        suffix: The end of a name that is made.

    Raises:
        OutsideError: A folder on the way to the file is a link, or the name is a folder's.
        OSError: It can't be written.
    """
    data = code.encode("utf-8", "replace")
    if name is None:
        return _write_new(folder, data, suffix)
    with _folder_of(folder, name) as place:
        try:
            os.unlink(name.name, dir_fd=place)
        except FileNotFoundError:
            pass
        except (IsADirectoryError, PermissionError):
            raise OutsideError from None
        _create(name.name, place, data)
    return name


def delete(folder: Path, name: PurePosixPath) -> None:
    """Delete a file that `write_code` wrote; that it is gone already, or out of reach, is no matter."""
    with contextlib.suppress(OSError, OutsideError), _folder_of(folder, name) as place:
        os.unlink(name.name, dir_fd=place)


def _is_plain(part: str) -> bool:
    return (
        part not in ("", ".", "..")
        and part.isprintable()
        and len(part.encode("utf-8", "replace")) <= LONGEST_NAME
    )


@contextlib.contextmanager
def _folder_of(folder: Path, name: PurePosixPath) -> Iterator[int]:
    """The folder in which a file lies, opened step by step without following links; made where it is missing."""
    place = os.open(folder, _FOLDER & ~os.O_NOFOLLOW)
    try:
        for part in name.parts[:-1]:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=place)
            try:
                inner = os.open(part, _FOLDER, dir_fd=place)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    raise OutsideError from None
                raise
            os.close(place)
            place = inner
        yield place
    finally:
        os.close(place)


def _write_new(folder: Path, data: bytes, suffix: str) -> PurePosixPath:
    """The same code gets the same name, so that a traceback reads the same; runs at one time get one each."""
    digest = hashlib.sha256(data).hexdigest()[:32]
    with _folder_of(folder, PurePosixPath("x")) as place:
        number = 1
        while True:
            name = f"tmp_code_{digest}.{suffix}" if number == 1 else f"tmp_code_{digest}_{number}.{suffix}"
            try:
                _create(name, place, data)
            except FileExistsError:
                number += 1
                continue
            return PurePosixPath(name)


def _create(name: str, place: int, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, 0o600, dir_fd=place), "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(data)
