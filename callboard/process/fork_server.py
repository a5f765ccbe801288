"""The fork server of `callboard up`: a process that has loaded what workers share, and makes each of them by a fork.

Pages of memory that nobody writes to are there once, however many processes have them. Shared are this package and what
the app imports of installed packages; never a module of the user's own, which each worker imports for itself: an id that is
drawn there, or a client that is made there, is one worker's alone, and a changed file is read anew. The app's own package
counts as the user's where it is installed, too.

The server has one thread and no connection but its line to the supervisor, since a fork copies neither threads nor
what the other end of a connection knows. Where loading starts a thread, opens something or goes by variables that the app
sets, as some packages do, only this package is shared.

The line carries one JSON object a packet. In: `{"token", "words", "shown"}`, with the descriptor for the output of a worker
that is to begin, its arguments, and its command as `ps` shows it; `{"retire": true}`. Out: `{"token", "pid"}`, with a
descriptor of the process, and `{"token", "code"}` when it has ended.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from callboard.broker.redis.client.identity import TOKEN_VARIABLE
from callboard.foundation.texts import is_users

from .loader import load_app

PACKET: Final = 65_536  # bytes of the largest request
TRIAL_PATIENCE: Final = 20.0  # seconds that importing the app may take before only this package is shared
DESCRIPTORS: Final = Path("/proc/self/fd")
TASKS: Final = Path("/proc/self/task")


def serve(descriptor: int, target: str) -> list[str] | None:
    """Serve until the supervisor is gone, or says that it needs no more workers and the last one has ended.

    Args:
        descriptor: Of the line to the supervisor.
        target: `module:app`, whose packages are shared.

    Returns:
        None in the server, when it is over; in each process that it forks, the words of its command line.
    """
    line = socket.socket(fileno=descriptor)
    line.set_inheritable(False)
    share(packages_of(target))
    if _threads() > 1:
        return None  # its supervisor starts programs then
    # What is there is nobody's garbage; and a collection would write to every object, so that no page of it were shared.
    gc.collect()
    gc.freeze()
    return _Server(line).serve()


# What is shared


def packages_of(target: str) -> list[str]:
    """The modules of installed packages that an app imports; none where loading them does more than that.

    It is tried in a process of its own, which then ends: the app's own modules are not to be loaded in the server.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reading)
        _try(target, writing)
    os.close(writing)
    try:
        told = _all_of(reading, TRIAL_PATIENCE)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    names: list[str] = json.loads(told) if told else []
    return names


def _try(target: str, writing: int) -> None:
    """Import the app, tell what it needed, and end: without a word, and without what happens at the end of a process."""
    try:
        _be_silent()
        before = _footprint()
        load_app(target)
        names = _installed(target.partition(":")[0].partition(".")[0]) if _footprint() == before else []
        with os.fdopen(writing, "w", encoding="utf-8") as told:
            json.dump(names, told)
    except BaseException:  # noqa: BLE001 - the worker meets the same, and says so
        os._exit(1)
    os._exit(0)


def _be_silent() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)


def _footprint() -> tuple[int, int, Mapping[str, str]]:
    """What loading may not change: threads, open descriptors, and variables that packages read when they are loaded."""
    return _threads(), len(list(DESCRIPTORS.iterdir())), dict(os.environ)


def _threads() -> int:
    return len(list(TASKS.iterdir()))


def _installed(own: str) -> list[str]:
    """The modules that are loaded, but the user's and those of the package `own`, in the order in which they were."""
    files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
    return [
        name
        for name, file in files.items()
        if file and name.partition(".")[0] not in (own, "__main__") and not is_users(file)
    ]


def share(modules: Sequence[str]) -> None:
    """Load modules, for all processes that are forked."""
    for name in modules:
        # One that can't be loaded by itself is loaded by the workers, by way of what can.
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def _all_of(descriptor: int, patience: float) -> bytes:
    """What is written to a pipe until its end; b"" where that takes too long."""
    found = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while selector.select(patience):
            chunk = os.read(descriptor, PACKET)
            if not chunk:
                return found
            found += chunk
    return b""


# Forking


class Begun(NamedTuple):
    """A process that was forked.

    Attributes:
        token: By which the supervisor knows it.
        pid: Its id.
        handle: Descriptor of it, which can be read when it has ended.
    """

    token: str
    pid: int
    handle: int


@dataclass(frozen=True, slots=True)
class _Order:
    token: str
    words: list[str]
    shown: str
    output: int


class _Server:
    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._selector = selectors.DefaultSelector()
        self._selector.register(line, selectors.EVENT_READ)
        self._begun: dict[int, Begun] = {}
        self._is_retired = False

    def serve(self) -> list[str] | None:
        while self._begun or not self._is_retired:
            for key, _ in self._selector.select():
                if key.fd != self._line.fileno():
                    self._bury(self._begun.pop(key.fd))
                elif (order := self._order()) is not None and self._fork(order) == 0:
                    return self._become(order)
        return None

    def _order(self) -> _Order | None:
        packet, descriptors, _, _ = socket.recv_fds(self._line, PACKET, 1)
        if not packet:
            os._exit(0)  # the supervisor is gone; its workers notice that themselves, and drain
        told: dict[str, Any] = json.loads(packet)
        if told.get("retire"):
            self._is_retired = True
            return None
        return _Order(told["token"], told["words"], told["shown"], descriptors[0])

    def _fork(self, order: _Order) -> int:
        pid = os.fork()
        if pid:
            os.close(order.output)
            begun = Begun(order.token, pid, os.pidfd_open(pid))
            self._begun[begun.handle] = begun
            self._selector.register(begun.handle, selectors.EVENT_READ)
            self._tell({"token": order.token, "pid": pid}, [begun.handle])
        return pid

    def _bury(self, begun: Begun) -> None:
        self._selector.unregister(begun.handle)
        _, status = os.waitpid(begun.pid, 0)
        os.close(begun.handle)
        self._tell({"token": begun.token, "code": os.waitstatus_to_exitcode(status)})

    def _tell(self, told: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the next look sees that it is gone
            socket.send_fds(self._line, [json.dumps(told).encode()], descriptors)

    def _become(self, order: _Order) -> list[str]:
        """Make of this process, which was just forked, one as if it had been started by itself."""
        self._selector.close()
        self._line.close()
        for begun in self._begun.values():
            os.close(begun.handle)
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        for number in (1, 2):
            os.dup2(order.output, number)
        os.close(order.output)
        os.environ[TOKEN_VARIABLE] = order.token
        sys.argv[1:] = order.words
        _draw_anew()
        _show_as(order.shown)
        return order.words


def _draw_anew() -> None:
    """No two workers draw the same numbers. Python's own generator knows of forks, and that of numpy does not."""
    if numpy_random := sys.modules.get("numpy.random"):
        numpy_random.seed()


def _show_as(command: str) -> None:
    """Let `ps` show the command line of a worker, and not that of the server."""
    from setproctitle import setproctitle, setthreadtitle

    setproctitle(command)
    setthreadtitle("callboard")
