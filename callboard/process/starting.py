"""How a supervisor starts a worker process: as a program of its own, or by a fork of what has loaded all that is shared."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from callboard.broker.redis.client.identity import TOKEN_VARIABLE

from . import FORK_SERVER
from .fork_server import PACKET

WATCHED_PIPE: Final = "{watched}"
"""Stands in a command for the number of the descriptor whose end of file says that the supervisor is gone."""

UNKNOWN: Final = 255
"""Exit code of a process that has ended when nobody was left who could tell how."""

FORK_PATIENCE: Final = (
    60.0  # seconds until a server that makes no process is given up; it tries the app for 20 of them
)
TOLD_WITHIN: Final = (
    5.0  # seconds after the end of a process until it counts as one of which nobody knows how
)

# -P: the current folder is no place to import `callboard` from; `worker` puts the app's folder on the path itself.
_PYTHON: Final = (sys.executable, "-P", "-m", "callboard")


def python(*words: str) -> tuple[str, ...]:
    """A command line of `callboard` as a program and its arguments."""
    return (*_PYTHON, *words)


class WorkerProcess(Protocol):
    """A process that was started, as its supervisor holds it."""

    @property
    def pid(self) -> int:
        """Its id."""
        ...

    @property
    def returncode(self) -> int | None:
        """How it ended, with -N for signal N; None: it has not, as far as is known."""
        ...

    async def wait(self) -> int:
        """Wait until it has ended; how."""
        ...

    def send_signal(self, number: int, /) -> None:
        """Send it a signal, and no other process that has its id by then.

        Raises:
            ProcessLookupError: It has ended.
        """
        ...


class Starter(Protocol):
    """Starts processes, each in a session of its own."""

    async def start(self, command: Sequence[str], watched: int, output: int, token: str) -> WorkerProcess:
        """Start one.

        Args:
            command: Program and arguments; `WATCHED_PIPE` in them is replaced.
            watched: Descriptor that it inherits, under the same number.
            output: Descriptor for what it prints.
            token: By which it is known on the server.
        """
        ...

    def renew(self) -> None:
        """What is started from now on has what is installed now."""
        ...

    def hurry(self) -> None:
        """It is to stop: what is being started is not waited for long."""
        ...

    async def close(self) -> None:
        """End, when all that was started has ended."""
        ...


class Programs:
    """Starts each process as a program.

    Args:
        environ: Their environment.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)

    async def start(self, command: Sequence[str], watched: int, output: int, token: str) -> WorkerProcess:
        """Start one; see `Starter`."""
        return await asyncio.create_subprocess_exec(
            *_filled(command, watched),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(watched,),
            start_new_session=True,
            env={**self._environ, TOKEN_VARIABLE: token},
        )

    def renew(self) -> None:
        """Nothing is kept."""

    def hurry(self) -> None:
        """A program is started at once."""

    async def close(self) -> None:
        """Nothing is kept."""


def _filled(command: Sequence[str], watched: int) -> list[str]:
    return [part.replace(WATCHED_PIPE, str(watched)) for part in command]


def can_fork() -> bool:
    """Whether this system has what a fork server needs: Linux, with descriptors of processes."""
    return sys.platform == "linux" and hasattr(os, "pidfd_open")


class Forks:
    """Starts each process by a fork of a server that has loaded what they share; as programs where there is none.

    Args:
        target: `module:app`.
        environ: Environment of the processes.
        notice: Gets what a person should know.
    """

    def __init__(self, target: str, environ: Mapping[str, str], notice: Callable[[str], None]) -> None:
        self._target = target
        self._environ = dict(environ)
        self._notice = notice
        self._programs = Programs(environ)
        self._server: _ForkServer | None = None
        self._retired: list[_ForkServer] = []
        self._starting = asyncio.Lock()
        self._has_given_up = False

    async def start(self, command: Sequence[str], watched: int, output: int, token: str) -> WorkerProcess:
        """Start one; see `Starter`."""
        if not self._has_given_up:
            try:
                server = await self._serving(watched)
                return await server.fork(_filled(command, watched), output, token)
            except (OSError, ForkServerGoneError) as error:
                # A program takes more memory and works all the same. It is not tried again: what ended it would again.
                self._has_given_up = True
                self._notice(f"each process loads everything for itself, which takes more memory: {error}")
        return await self._programs.start(command, watched, output, token)

    async def _serving(self, watched: int) -> _ForkServer:
        async with self._starting:
            if self._server is None:
                self._server = await _ForkServer.started(self._target, self._environ, watched)
            return self._server

    def renew(self) -> None:
        """Let another server begin; the old one stays until its processes have ended."""
        if self._server is not None:
            self._server.retire()
            self._retired.append(self._server)
            self._server = None

    def hurry(self) -> None:
        """A server that loads something still, for as long as the app takes, is not waited for."""
        if self._server is not None and self._server.is_awaited:
            self._server.kill()

    async def close(self) -> None:
        """End the servers."""
        self.renew()
        for server in self._retired:
            await server.close()


class ForkServerGoneError(Exception):
    """The fork server can't start a process."""


class _ForkServer:
    """The server, as the supervisor holds it."""

    def __init__(self, process: asyncio.subprocess.Process, line: socket.socket) -> None:
        self._process = process
        self._line = line
        self._beginning: dict[str, asyncio.Future[_Forked]] = {}
        self._begun: dict[str, _Forked] = {}
        self._is_gone = False
        asyncio.get_running_loop().add_reader(line, self._hear)

    @classmethod
    async def started(cls, target: str, environ: Mapping[str, str], watched: int) -> _ForkServer:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        try:
            process = await asyncio.create_subprocess_exec(
                *python(FORK_SERVER, str(theirs.fileno()), target),
                stdin=asyncio.subprocess.DEVNULL,
                # Its workers have outputs of their own. What goes wrong in it is seen by its end.
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                pass_fds=(watched, theirs.fileno()),
                start_new_session=True,
                env=dict(environ),
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(process, ours)

    async def fork(self, command: Sequence[str], output: int, token: str) -> _Forked:
        if self._is_gone:
            raise ForkServerGoneError("the process that makes them has ended")
        beginning: asyncio.Future[_Forked] = asyncio.get_running_loop().create_future()
        self._beginning[token] = beginning
        words = list(command[len(_PYTHON) :])
        self._tell({"token": token, "words": words, "shown": " ".join(command)}, [output])
        try:
            async with asyncio.timeout(FORK_PATIENCE):
                return await beginning
        except TimeoutError:
            self.kill()
            raise ForkServerGoneError(
                f"the process that makes them has made none in {FORK_PATIENCE:g} s"
            ) from None

    def _tell(self, told: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its end is heard
            socket.send_fds(self._line, [json.dumps(told).encode()], descriptors)

    def _hear(self) -> None:
        try:
            packet, descriptors, _, _ = socket.recv_fds(self._line, PACKET, 1)
        except BlockingIOError:
            return
        except ConnectionResetError:
            packet, descriptors = b"", []
        if not packet:
            self._lose()
            return
        told = json.loads(packet)
        if "pid" in told:
            self._begin(told["token"], told["pid"], descriptors[0])
        else:
            self._begun.pop(told["token"]).end(told["code"])

    def _begin(self, token: str, pid: int, handle: int) -> None:
        forked = self._begun[token] = _Forked(pid, handle)
        beginning = self._beginning.pop(token)
        if not beginning.cancelled():
            beginning.set_result(forked)
            return
        forked.send_signal(signal.SIGKILL)  # nobody waits for it any more

    def _lose(self) -> None:
        """The server is gone. What it made goes on."""
        self._is_gone = True
        asyncio.get_running_loop().remove_reader(self._line)
        beginnings, self._beginning = self._beginning, {}
        for beginning in beginnings.values():
            if not beginning.done():
                beginning.set_exception(ForkServerGoneError("the process that makes them has ended"))

    @property
    def is_awaited(self) -> bool:
        return bool(self._beginning)

    def retire(self) -> None:
        self._tell({"retire": True})

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def close(self) -> None:
        self.kill()
        await self._process.wait()
        if not self._is_gone:
            self._lose()
        self._line.close()


class _Forked:
    """A process that the server made. Its end is seen here, and how it ended is told by the server, its parent."""

    def __init__(self, pid: int, handle: int) -> None:
        self.pid = pid
        self._handle = handle
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_reader(handle, self._see_end)

    @property
    def returncode(self) -> int | None:
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def send_signal(self, number: int) -> None:
        if self._ended.done():
            raise ProcessLookupError
        signal.pidfd_send_signal(self._handle, number)

    def _see_end(self) -> None:
        # The server may have been killed, or stopped.
        self._loop.remove_reader(self._handle)
        self._loop.call_later(TOLD_WITHIN, self.end, UNKNOWN)

    def end(self, code: int) -> None:
        if not self._ended.done():
            self._loop.remove_reader(self._handle)
            self._ended.set_result(code)
            os.close(self._handle)
