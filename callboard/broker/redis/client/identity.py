"""The name of a process among all that share a server: `<host>:<pid>:<token>`.

Host and process id alone are no identity: two containers may have one host name, and in each of them the worker is process
7. Burying one would end the other. Hence the token, which is random.

A supervisor makes the token of its child, so that it can bury exactly that child; without one the process makes its own.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import string
from typing import Final

from callboard.broker.errors import SettingsError

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
