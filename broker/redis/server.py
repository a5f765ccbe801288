"""The embedded server: a real server process on a Unix socket and a loopback port, shared by several commands.

Who uses the server of a directory holds a shared lock there. A guard process waits for the exclusive one, which it
gets when the last user is gone, however that happened, and then stops the server (see `guard.py`). Starting is
serialised by `start.lock`. Linux and macOS only.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ..errors import BrokerError
from . import guard

if sys.platform != "win32":
    pass

DEFAULT_DIRECTORY = Path(".callboard")
START_LOCK = "start.lock"

#: Seconds that a server may stay silent while it starts; loading its file is not silence.
START_TIMEOUT = 10.0
#: Seconds to wait for others who start or stop the server of the same directory.
LOCK_TIMEOUT = 60.0
#: Seconds between two looks at a lock or a socket that is about to become ready.
POLL = 0.001
#: Servers tried when another process takes the chosen port first.
PORT_ATTEMPTS = 3

T = TypeVar("T")


class ServerStartError(BrokerError):
    """The embedded server could not be started, or does not answer."""

    def __init__(self, directory: Path, reason: str, log: str = "") -> None:
        super().__init__(directory, reason, log)
        self.directory = directory
        self.reason = reason
        self.log = log

    def __str__(self) -> str:
        said = f"; its log ends with:\n{self.log}" if self.log else ""
        return (
            f"the embedded server in {self.directory} {self.reason}: look at {self.directory / guard.LOG}, "
            f"or set CALLBOARD_URL to a server that runs{said}"
        )


class ServerUnsupportedError(BrokerError):
    """There is no embedded server on this system."""

    def __str__(self) -> str:
        return (
            "the embedded server runs on Linux and macOS only: start a Redis or Valkey server yourself and set "
            "CALLBOARD_URL to it, for example redis://localhost:6379"
        )


class _Abandoned(Exception):
    """Nobody waits for the result any more."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """A running embedded server.

    Attributes:
        url: `unix://` URL for clients.
        socket_path: the socket in it.
        port: TCP port on 127.0.0.1.
        pid: of the server process.
        directory: absolute path of the state directory.
        binary: path of the server binary.
        persistent: it stays when nobody uses it.
        in_use: somebody uses it now.
    """

    url: str
    socket_path: Path
    port: int
    pid: int
    directory: Path
    binary: Path
    persistent: bool
    in_use: bool


class ServerHandle:
    """The right to use an embedded server, which runs as long as somebody has one. Also an async context manager.

    Attributes:
        url: `unix://` URL for clients.
        socket_path: the socket in it.
        port: TCP port on 127.0.0.1.
        pid: of the server process.
        directory: absolute path of the state directory.
    """

    def __init__(self, state: _StateDirectory, record: guard.Record) -> None:
        self._state: _StateDirectory | None = state
        self._timeout_state = state
        self._set(record)
        self.directory = state.path

    def _set(self, record: guard.Record) -> None:
        self.socket_path = Path(record["socket"])
        self.url = _url(self.socket_path)
        self.port = int(record["port"])
        self.pid = int(record["pid"])
