"""The lease of a worker: extended from a thread, and by the keeper beside it while no thread can run.

A handler that blocks the event loop for minutes must not cost the worker its lease, so nothing here touches the loop.
The beat also reaps workers that stopped beating, fires timers and trims streams: see beat/beat.lua.

The keeper is a process of its own (keeper_process.py says what it does). Measured on Linux with Python 3.11: 4.4 MB of
memory of its own (10.6 MB resident, of which most is shared with the worker), 15 ms of processor time to start, beside
the worker's own start and without making that longer, and 5 ms a minute from then on.
"""

from __future__ import annotations

import asyncio
import logging
import mmap
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from callboard.broker.errors import BrokerError
from callboard.broker.redis.keys import Keys
from callboard.broker.redis.library import library
from callboard.broker.retry import Backoff
from callboard.broker.settings import BrokerSettings
from callboard.broker.telemetry import Beat, emit

from . import keeper_process
from .blocking import BlockingConnection, connect, renew_file, run
from .endpoint import Argument, Endpoint
from .identity import HealthFile
from .sentinels import as_server, question
from .wire import pack

logger = logging.getLogger("callboard.broker")

AGAIN = 30  # beats that there is time for between two others, when there is much to tidy up: 3 to 8 ms each

FIRST_PAUSE, LONGEST_PAUSE = 0.0005, 0.02  # seconds between two looks at whether the thread has ended


# The heartbeat, a thread


class Pulse(NamedTuple):
    """The state of a worker, as a beat tells it.

    Attributes:
        worker: the present incarnation; "" for none, or for one that is not to be kept alive.
        acknowledged: number of its last call that was answered.
        held: deliveries that it holds.
        running: handlers under way.
        runs: the same by agent type, `<type> <n> <type> <n> ...`.
        blocked: while a handler blocks the event loop: for how many seconds, a space, and what it is; else "".
    """

    worker: str
    acknowledged: int
    held: int
    running: int
    runs: str = ""
    blocked: str = ""


class Heartbeat:
    """Beats for the current incarnation of one worker until stopped.

    Args:
        pulse: what there is to say; called in the thread, must not block.
        on_fenced: called in the thread when the server does not know the worker any more, or has lost what it knew.
        keeper: told of each beat; it goes with this heartbeat.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        keys: Keys,
        settings: BrokerSettings,
        pulse: Callable[[], Pulse],
        on_fenced: Callable[[str], None],
        keeper: Keeper | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._keys = keys
        self._settings = settings
        self._pulse = pulse
        self._on_fenced = on_fenced
        self._keeper = keeper
        self._health = HealthFile(Path(settings.health_file)) if settings.health_file else None
        self._stop = threading.Event()
        self._connection: BlockingConnection | None = None
        self._leaves = False
        self._thread = threading.Thread(target=self._run, name="callboard-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; waits for a beat that is under way."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(self._settings.connect_timeout)

    async def end(self) -> None:
        """As `stop`, without blocking the event loop and without a thread of its executor, which would stay."""
        self._stop.set()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.connect_timeout
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while self._thread.is_alive() and loop.time() < deadline:  # noqa: ASYNC110 - a thread sets no event of a loop
            await asyncio.sleep(backoff.pause())

    @property
    def connected_to(self) -> Endpoint | None:
        """Where the open connection leads."""
        connection = self._connection
        return None if connection is None else connection.endpoint

    def break_off(self, reason: str) -> None:
        """The next beat goes over a new connection."""
        logger.debug("the heartbeat leaves its server: %s", reason)
        self._leaves = True

    def _run(self) -> None:
        complained = False
        pause = self._settings.beat_every
        while not self._stop.wait(pause):
            pause = self._settings.beat_every
            try:
                # What is too much for one call goes on soon, in small ones: most of the time is for others.
                if self._beat():
                    pause /= AGAIN
                complained = False
            except BrokerError as error:
                self._hang_up()
                if not complained:
                    logger.warning("heartbeat failed, trying again: %s", error)
                complained = True
            except Exception:  # a thread that ended in silence would cost the worker its lease
                self._hang_up()
                if not complained:
                    logger.exception("heartbeat failed, trying again")
                complained = True
        self._hang_up()
        if self._keeper is not None:
            self._keeper.close()
        if self._health is not None:
            self._health.remove()

    def _tell_keeper(self, worker: str) -> None:
        if self._keeper is not None:
            self._keeper.tell(worker)

    def _beat(self) -> bool:
        """One beat; whether the server has more to tidy up."""
        worker, acknowledged, held, running, runs, blocked = self._pulse()
        # guard: a worker's heart beats
        if not worker:
            self._tell_keeper("")
            return False
        settings = self._settings
        lease = int(settings.lease * 1000)
        forget = int(settings.forget_topics_after * 1000)
        about_streams = (settings.retain, settings.max_unclaimed)
        arguments = (worker, lease, *about_streams, held, running, acknowledged, forget, runs, blocked)
        answer = run(self._connected(), self._keys, "beat", arguments)
        self._tell_keeper(worker)
        # `worker` and not the present name: the loop may have joined anew while the beat was under way, and a lost lease
        # of the old incarnation must not be told of the new one.
        # guard: a lost lease is told
        if answer[0] == b"FENCED":
            self._on_fenced(worker)
            return False
        if self._health is not None:
            self._health.renew(worker)
        emit(Beat, worker, held, running)
        return bool(answer[3])

    def _connected(self) -> BlockingConnection:
        if self._leaves and self._connection is not None:
            self._connection.close()
            self._connection = None
        self._leaves = False
        if self._connection is None:
            # Twice in a lease it must be possible to notice a dead connection and make a new one.
            patience = max(0.2, self._settings.lease / 3)
            self._connection = connect(self._endpoint, patience, "callboard-heartbeat")
            # The server may have been started again.
            # guard: half a transaction at the end of a server's file is not carried out later
            if self._settings.renew_file and self._endpoint.scheme != "memory":
                renew_file(self._connection)
        return self._connection

    def _hang_up(self) -> None:
        # A worker that has lost the server loses its lease: its keeper does not extend it.
        self._tell_keeper("")
        if self._connection is not None:
            self._connection.close()
            self._connection = None


# The keeper, a process

ATTEMPTS = 3  # starts of a keeper that ends at once, until it is given up
HEALTHY_AFTER = 30.0  # seconds of life after which earlier ends do not count
END_WITHIN = 1.0  # seconds that it gets to end


class HangPolicy(NamedTuple):
    """The end of a worker that is silent past the `max_runtime` of a handler.

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

    def __init__(self, endpoint: Endpoint, keys: Keys, settings: BrokerSettings, watch: HangPolicy) -> None:
        self._plan = plan_of(endpoint, keys, settings, watch)
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


def plan_of(endpoint: Endpoint, keys: Keys, settings: BrokerSettings, watch: HangPolicy) -> bytes:
    """The first line that a keeper is told: where the server is, and what to say to it."""
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
