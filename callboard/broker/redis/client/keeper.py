"""The worker's side of its keeper: a tiny process that extends the lease while no thread of the worker can run.

See keeper_process.py for what it does. Measured on Linux with Python 3.11: 4.4 MB of memory of its own (10.6 MB resident, of
which most is shared with the worker), 15 ms of processor time to start, beside the worker's own start and without making
that longer, and 5 ms a minute from then on.
"""

from __future__ import annotations

import logging
import mmap
import os
import subprocess
import sys
import tempfile
import threading
import time
from typing import NamedTuple

from callboard.broker.redis.keys import Keys
from callboard.broker.redis.scripts import library
from callboard.broker.settings import BrokerSettings

from . import keeper_process
from .commands import pack
from .endpoint import Argument, Endpoint
from .sentinels import as_server, question

logger = logging.getLogger("callboard.broker")

ATTEMPTS = 3  # starts of a keeper that ends at once, until it is given up
HEALTHY_AFTER = 30.0  # seconds of life after which earlier ends do not count
END_WITHIN = 1.0  # seconds that it gets to end


class Watch(NamedTuple):
    """What becomes of a worker that is silent past the `max_runtime` of a handler.

    Attributes:
        ends_worker: its process is killed; else it only loses its lease. Then the keeper starts with the worker, and
            not with its first beat: a process that belongs to the worker may well begin with the message that hangs.
        margin: seconds past the limit.
    """

    ends_worker: bool
    margin: float


class Keeper:
    """One helper process for one worker, whatever its incarnation. Event loop and heartbeat's thread may use it.

    Args:
        endpoint: where the lease is.
        keys: of the namespace.
        settings: how long a lease is, and silence is fine.
        watch: what becomes of a worker that hangs.

    Attributes:
        board: its one number is the time (`time.monotonic()`) by which the first of the running handlers has to have
            ended, 0.0 when none has a limit. Anybody may set it, the keeper sees it.
    """

    def __init__(self, endpoint: Endpoint, keys: Keys, settings: BrokerSettings, watch: Watch) -> None:
        self._plan = _plan(endpoint, keys, settings, watch)
        self._is_eager = watch.ends_worker
        self._memory = _shared_memory()
        # Memory of both processes: what changes with every message must not cost a system call.
        self.board = memoryview(mmap.mmap(self._memory, keeper_process.BOARD_SIZE)).cast("d")
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._attempts = 0
        self._since = 0.0
        self._pipe = -1

    def start(self) -> None:
        """Starts it in a worker process; elsewhere it comes with the first beat, so that what is short is cheap."""
        if self._is_eager:
            with self._lock:
                self._start()

    def _start(self) -> None:
        if self._process is not None or self._attempts >= ATTEMPTS:
            return
        self._attempts += 1
        self._since = time.monotonic()
        reading, self._pipe = os.pipe()
        command = [sys.executable, "-I", "-S", keeper_process.__file__, str(self._memory)]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=reading,
                stdout=subprocess.DEVNULL,
                pass_fds=(self._memory,),
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._pipe)
            self._complain(str(error))
            return
        finally:
            os.close(reading)
        # A keeper that stands still must not stop the heart: what does not fit is left out.
        os.set_blocking(self._pipe, False)
        self._write(self._plan)

    def tell(self, worker: str) -> None:
        """Says that the heart of this worker has beaten; "": that it did not, and there is no lease to keep."""
        with self._lock:
            if worker:
                self._start()
            self._write_name(worker)

    def introduce(self, worker: str) -> None:
        """Says at once that a worker has joined, if the process runs: its first message may be the one that hangs."""
        with self._lock:
            self._write_name(worker)

    def _write_name(self, worker: str) -> None:
        if self._process is not None:
            self._write(worker.encode().hex().encode() + b"\n")

    def _write(self, line: bytes) -> None:
        try:
            os.write(self._pipe, line)
        except BlockingIOError:
            return
        except OSError as error:
            self._complain(str(error))
            self._end()

    def _complain(self, why: str) -> None:
        if time.monotonic() - self._since > HEALTHY_AFTER:
            self._attempts = 0
        again = (
            "another is started"
            if self._attempts < ATTEMPTS
            else "set CALLBOARD_KEEPER=0 if it can't run here"
        )
        logger.warning("the keeper of the lease does not run (%s); %s", why, again)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        os.close(self._pipe)
        try:
            process.wait(END_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def close(self) -> None:
        """Ends the process, which takes a millisecond; safe to repeat."""
        with self._lock:
            self._end()
            if self._memory >= 0:
                os.close(self._memory)
            self._memory, self._attempts = -1, ATTEMPTS


def can_keep(endpoint: Endpoint, settings: BrokerSettings) -> bool:
    """Whether a keeper is of use: not for memory://, and not where the interpreter can't be started as a script."""
    return settings.keeper and endpoint.scheme != "memory" and not getattr(sys, "frozen", False)


def _plan(endpoint: Endpoint, keys: Keys, settings: BrokerSettings, watch: Watch) -> bytes:
    greeting = endpoint.greeting("callboard-keeper")
    sentinels, asking = _sentinels(endpoint)
    farewell = ("FCALL", library().function("leave"), "1", keys.prefix, "1", "1")
    words = (
        str(os.getpid()),
        endpoint.host,
        str(endpoint.port),
        endpoint.path,
        "1" if endpoint.scheme == "rediss" else "",
        endpoint.ca_file,
        "1" if endpoint.check_certificate else "",
        b"".join(pack(command) for command in greeting),
        str(len(greeting)),
        keys.of("workers"),
        str(int(settings.lease * 1000)),
        str(max(0.2, settings.lease / 3)),
        # Before half of the lease is over, and not before a beat is missing.
        str(min(2 * settings.beat_every, settings.lease / 2)),
        str(settings.max_silence),
        str(watch.margin),
        "1" if watch.ends_worker else "",
        sentinels,
        b"".join(pack(command) for command in asking),
        str(len(asking)),
        *farewell,
    )
    raw = (word if isinstance(word, bytes) else word.encode(errors="surrogateescape") for word in words)
    return b" ".join(word.hex().encode() for word in raw) + b"\n"


def _sentinels(endpoint: Endpoint) -> tuple[str, list[tuple[Argument, ...]]]:
    """Their addresses, and what each of them is to be sent; nothing of a server that none watch."""
    watched = endpoint.watched
    if watched is None:
        return "", []
    greeting = as_server(endpoint, watched, watched.sentinels[0]).greeting("callboard-keeper")
    return " ".join(f"{host} {port}" for host, port in watched.sentinels), [*greeting, question(watched)]


def _shared_memory() -> int:
    """A descriptor of memory that can be shared with a process that is started."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("callboard-keeper")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, keeper_process.BOARD_SIZE)
    return descriptor
