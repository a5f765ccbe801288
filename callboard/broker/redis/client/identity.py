"""The name of a process among all that share a server, and the file that says that a worker lives.

Host and process id alone are no identity: two containers may have one host name, and in each of them the worker is process
7. Burying one would end the other. Hence the token, which is random.

A supervisor makes the token of its child, so that it can bury exactly that child; without one the process makes its own.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import socket
import string
import time
from pathlib import Path
from typing import Final

from callboard.broker.errors import SettingsError

logger = logging.getLogger("callboard.broker")

TOKEN_VARIABLE: Final = "CALLBOARD_PROCESS_TOKEN"  # noqa: S105 - no secret: it is part of names
"""The environment variable in which a supervisor gives its child a token. It is taken out when it is read."""

_LETTERS: Final = string.ascii_lowercase + string.digits
_LENGTH: Final = 8

_token = ""


def new_token() -> str:
    """Eight random letters and digits."""
    return "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))


def process_name(pid: int, token: str) -> str:
    """How the workers of a process of this machine are named, up to their fencing token."""
    return f"{socket.gethostname()}:{pid}:{token}"


def own_name() -> str:
    """The name of this process.

    Raises:
        SettingsError: the token in the environment is none.
    """
    return process_name(os.getpid(), _own_token())


def _own_token() -> str:
    global _token  # noqa: PLW0603
    if not _token:
        # Taken out: a program that a handler starts would take it for its own.
        given = os.environ.pop(TOKEN_VARIABLE, "")
        if given and not re.fullmatch(rf"[{_LETTERS}]{{{_LENGTH}}}", given):
            raise SettingsError(
                f"{TOKEN_VARIABLE}={given!r} is no token: a supervisor sets it to {_LENGTH} small letters and digits; "
                "leave it out and the process makes its own"
            )
        _token = given or new_token()
    return _token


def _forget_token() -> None:
    """A forked process is another one: burying it must not bury its parent."""
    global _token  # noqa: PLW0603
    _token = ""
    os.environ.pop(TOKEN_VARIABLE, None)


os.register_at_fork(after_in_child=_forget_token)


# The file that says that a worker lives


class HealthFile:
    """The file of one worker. Used in the heartbeat's thread: a worker whose event loop is blocked must not look ill.

    Args:
        path: Where; its folder has to be there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._complained = False

    def renew(self, worker: str) -> None:
        """Its lease was extended a moment ago. A file that can't be written costs the worker nothing but the file."""
        try:
            self._path.write_text(f"{worker}\n", encoding="utf-8")
        except OSError as error:
            if not self._complained:
                logger.warning("the health file %s can't be written: %s", self._path, error)
            self._complained = True

    def remove(self) -> None:
        """The worker has stopped."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


def age(path: Path) -> float | None:
    """Seconds since a health file was renewed; None: there is none."""
    try:
        return max(0.0, time.time() - path.stat().st_mtime)
    except OSError:
        return None
