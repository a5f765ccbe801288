"""The state directory of an embedded server: who uses it, whether it runs, how it is started and stopped.

Everything here blocks and is called from a thread; `embedded.py` is the way in.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from callboard.broker.errors import BrokerError, ConnectionLostError, ServerUnavailableError
from callboard.broker.redis import libraries
from callboard.broker.redis.client.blocking import BlockingWire
from callboard.broker.redis.client.endpoint import Endpoint

from . import files as server_files, guard

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
    """The embedded server could not be started, or does not answer.

    Attributes:
        directory: its state directory.
        reason: what happened, to be read after "the embedded server in ...".
        log: the last lines of its log, "" if it wrote none.
    """

    template = (
        "the embedded server in {directory} {reason}: "
        "remove the cause, or set CALLBOARD_URL to a server that runs{ending}"
    )

    directory: Path
    reason: str
    log: str = ""

    @property
    def ending(self) -> str:
        """The end of its log, as the end of the sentence."""
        return f"\nIts log, {self.directory / guard.LOG}, ends with:\n{self.log}" if self.log else ""


class AbandonedError(Exception):
    """The caller does not wait for the result any more; never seen outside `embedded.py`."""


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
        """Make every wait in another thread end with AbandonedError."""
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
        binary = server_files.find_binary(self._binary)
        socket_file = server_files.socket_path(self.path)
        config = server_files.write_config(self.path, socket_file)
        begin = server_files.begin_log(self.path)
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
        return server_files.log_tail(self.path, begin)

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
                raise AbandonedError


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
