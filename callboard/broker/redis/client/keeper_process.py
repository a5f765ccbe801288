"""The keeper of a lease: a tiny process beside a worker, which extends the worker's lease while the worker can't.

A heartbeat is a thread, and no thread runs while a call into C holds Python's lock (the GIL): a regular expression that
backtracks for a minute, a large `json.loads`, an extension module. So the worker says after each beat that it lives, and
when it falls silent this process extends the lease, as long as silence is fine. It ends a worker whose handler holds the
lock past its `max_runtime`, since nothing inside that process could.

The keeper runs as a script (`python -I -S keeper_process.py BOARD`), so that it starts in milliseconds and holds little
memory: hence nothing but the standard library is imported, and of that the larger parts only when the worker is silent.

stdin has these lines; its end means that the worker is gone or has stopped:

===========  =============================================================================================
first        the plan: words in hexadecimal, see `Plan`
after that   one with each beat: the worker's name in hexadecimal, or nothing while there is no lease to keep
===========  =============================================================================================

BOARD is the descriptor of memory that the worker writes to: the time (`time.monotonic()`) by which the first of its
handlers has to have ended, 0.0 when none has a limit. Not a line on stdin: it changes with every message, and a line is a
system call.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False  # as in typing, which would take longer to import than all the rest
if TYPE_CHECKING:
    import io
    import socket
    import ssl
    from collections.abc import Sequence
    from typing import Any

BOARD_SIZE = 8
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Seconds that a killed process gets to be gone.
DEATH = 10.0
#: Seconds between two looks at the parent where the system can't tell of its end.
LOOK_EVERY = 1.0
#: On-time looks at a silent worker before it may be ended: after a pause of the whole machine, the worker comes first.
LOOKS = 2


class KeeperPlan:
    """The words that a worker says once: where its server is, and how long things last.

    Attributes:
        parent: pid of the worker.
        host, port, path: of the server; a path is that of a socket. Behind sentinels host and port say nothing.
        tls, ca_file, check: whether and how to encrypt.
        greeting, answers: what to send first, as bytes, and how many answers come.
        workers: the Redis key of the leases.
        lease: ms.
        patience: seconds for connecting, and for each answer.
        quiet: seconds without a line after which the worker counts as silent.
        max_silence: seconds that it may be silent while no handler with a limit runs.
        margin: seconds past a limit after which a silent worker is ended, or loses its lease.
        ends: whether it is ended.
        sentinels: where those listen who know where the server is; mostly there are none.
        asking, said: what each of them is sent, as bytes, and how many answers come. The last one says where the server is.
        farewell: the command that gives back what a dead worker held, without the worker's name; words in hexadecimal.
    """

    def __init__(self, line: bytes) -> None:
        words = [bytes.fromhex(word.decode()) for word in line.split(b" ")]
        texts = [word.decode(errors="surrogateescape") for word in words]
        self.parent = int(texts[0])
        self.host, self.port, self.path = texts[1], int(texts[2]), texts[3]
        self.tls, self.ca_file, self.check = texts[4] == "1", texts[5], texts[6] == "1"
        self.greeting, self.answers = words[7], int(texts[8])
        self.workers = words[9]
        self.lease = int(texts[10])
        self.patience, self.quiet, self.max_silence, self.margin = map(float, texts[11:15])
        self.ends = texts[15] == "1"
        listed = texts[16].split()
        self.sentinels = [(host, int(port)) for host, port in zip(listed[::2], listed[1::2], strict=True)]
        self.asking, self.said = words[17], int(texts[18])
        self.farewell = words[19:]


class Server:
    """A connection to the server, made when it is first needed."""

    def __init__(self, plan: KeeperPlan) -> None:
        self._plan = plan
        self._socket: socket.socket | None = None
        self._answers: io.BufferedReader | None = None

    def call(self, *words: bytes) -> Any:
        """The answer to a command.

        Raises:
            OSError: there is none, not in time, or an error.
        """
        try:
            if self._socket is None or self._answers is None:
                self._socket, self._answers = self._connected()
            self._socket.sendall(packed(words))
            return read(self._answers)
        except BaseException:
            self.close()
            raise

    def _connected(self) -> tuple[socket.socket, io.BufferedReader]:
        plan = self._plan
        host, port = located(plan) if plan.sentinels else (plan.host, plan.port)
        made = opened(plan, host, port, plan.patience)
        try:
            answers = made.makefile("rb")
            made.sendall(plan.greeting)
            for _ in range(plan.answers):
                read(answers)
        except BaseException:
            made.close()
            raise
        return made, answers

    def close(self) -> None:
        """Ends the connection; safe to repeat."""
        for each in (self._answers, self._socket):
            if each is not None:
                each.close()
        self._socket = self._answers = None


def located(plan: KeeperPlan) -> tuple[str, int]:
    """Where the first sentinel that knows says that the server is.

    Raises:
        OSError: none does.
    """
    for host, port in plan.sentinels:
        try:
            with opened(plan, host, port, plan.patience / len(plan.sentinels)) as made:
                made.sendall(plan.asking)
                with made.makefile("rb") as answers:
                    found = [read(answers) for _ in range(plan.said)][-1]
        except OSError:
            continue  # the next one may know
        if found:
            return found[0].decode(), int(found[1])
    raise ConnectionError("no sentinel says where the server is")


def opened(plan: KeeperPlan, host: str, port: int, patience: float) -> socket.socket:
    """Connects to the server, or to a sentinel."""
    import socket

    if not plan.path:
        plain = socket.create_connection((host, port), patience)
        return context(plan).wrap_socket(plain, server_hostname=host) if plan.tls else plain
    plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        plain.settimeout(plan.patience)
        plain.connect(plan.path)
    except OSError:
        plain.close()
        raise
    return plain


def context(plan: KeeperPlan) -> ssl.SSLContext:
    """As `Endpoint.ssl_context`."""
    import ssl

    made = ssl.create_default_context(cafile=plan.ca_file or None)
    if not plan.check:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    return made


def packed(words: Sequence[bytes]) -> bytes:
    """A command as bytes."""
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


def read(answers: io.BufferedReader) -> Any:
    """One answer.

    Raises:
        OSError: it is an error.
    """
    line = answers.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionError("the server closed the connection")
    kind, rest = line[:1], line[1:-2]
    if kind == b"-":
        raise OSError(rest.decode(errors="replace"))
    if kind == b"$":
        return None if rest == b"-1" else answers.read(int(rest) + 2)[:-2]
    if kind == b"*":
        return [read(answers) for _ in range(int(rest))]
    return rest


class ParentProcess:
    """The worker's process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        # Through a descriptor a signal can't reach another process that has got the same pid.
        self.descriptor = _descriptor_of(pid)

    def is_there(self) -> bool:
        """Whether it lives: what has lost its parent gets another one at once."""
        return os.getppid() == self.pid

    def is_stopped(self) -> bool:
        """Whether it was stopped, by SIGSTOP or a debugger: then it is to lose its lease."""
        if sys.platform == "linux":
            with open(f"/proc/{self.pid}/stat", "rb") as file:
                # The name in parentheses may itself hold spaces and parentheses.
                return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
        import subprocess

        command = ["ps", "-o", "stat=", "-p", str(self.pid)]
        return subprocess.run(command, capture_output=True, check=False).stdout.strip()[:1] == b"T"

    def kill(self) -> bool:
        """Ends it; says whether it is gone."""
        if self.descriptor >= 0:
            signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)
            return bool(select.select([self.descriptor], [], [], DEATH)[0])
        os.kill(self.pid, signal.SIGKILL)
        deadline = time.monotonic() + DEATH
        while self.is_there() and time.monotonic() < deadline:
            time.sleep(0.01)
        return not self.is_there()


def _descriptor_of(pid: int) -> int:
    """-1 where there is none: not every system has them, and some containers do not allow them."""
    if not hasattr(os, "pidfd_open"):
        return -1
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1


class KeeperLoop:
    """Listens to a worker, and acts when it is silent."""

    def __init__(self, plan: KeeperPlan, board: memoryview[float]) -> None:
        self._plan = plan
        self._board = board
        self._rest = b""
        self._parent = ParentProcess(plan.parent)
        self._server = Server(plan)
        self._worker = b""
        self._heard = time.monotonic()
        self._looks = 0
        self._complained = False

    def run(self) -> None:
        """Goes on until the worker has ended."""
        inputs = [0] if self._parent.descriptor < 0 else [0, self._parent.descriptor]
        while self._parent.is_there():
            wait, before = self._pause(), time.monotonic()
            ready = select.select(inputs, [], [], wait)[0]
            if self._parent.descriptor in ready:
                return
            if 0 in ready:
                data = os.read(0, 65536)
                if not data:
                    return
                self.take(data)
            elif self._worker and self._is_silent():
                if wait is not None and time.monotonic() - before > wait + self._plan.quiet:
                    self._looks = 0  # this process stood still as well
                self._look()

    def _pause(self) -> float | None:
        """Seconds until the next look."""
        if not self._worker:
            return LOOK_EVERY if self._parent.descriptor < 0 else None
        now = time.monotonic()
        if not self._is_silent():
            return max(0.001, self._heard + self._plan.quiet - now)
        to_limit = self._limit() - now
        wait = min(self._plan.quiet, self._plan.lease / 4000)
        return min(wait, to_limit) if to_limit > 0 else wait

    def take(self, data: bytes) -> None:
        """Reads what the worker wrote."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if lines:
            self._worker = bytes.fromhex(lines[-1].decode())
            self._heard, self._looks, self._complained = time.monotonic(), 0, False
            # It beats by itself again: a connection that is not used would only be one more for the server.
            self._server.close()

    def _is_silent(self) -> bool:
        return time.monotonic() - self._heard >= self._plan.quiet

    def _limit(self) -> float:
        """Until when silence is fine."""
        earliest = self._board[0]
        return earliest + self._plan.margin if earliest else self._heard + self._plan.max_silence

    def _look(self) -> None:
        # guard: a keeper lets a stopped worker lose its lease
        if self._parent.is_stopped():
            self._looks = 0
            return
        self._looks += 1
        # guard: a keeper extends the lease only while silence is fine
        if time.monotonic() < self._limit():
            self._extend()
        elif self._board[0] and self._plan.ends:
            if self._looks >= LOOKS:
                self._end()
        elif not self._complained:
            self._complained = True
            say(f"{self._name} has been silent for too long: others take its messages when its lease ends")

    def _extend(self) -> None:
        try:
            seconds, micros = self._server.call(b"TIME")
            until = int(seconds) * 1000 + int(micros) // 1000 + self._plan.lease
            # XX: a worker that was reaped must not come back; others have what it held.
            # guard: a keeper does not bring back a reaped worker
            self._server.call(b"ZADD", self._plan.workers, b"XX", b"%d" % until, self._worker)
        except OSError:
            # Tried again at the next look. The worker complains by itself when it can't reach the server.
            return

    def _end(self) -> None:
        say(
            f"{self._name} holds Python's lock past the max_runtime of a handler and can't end itself: it is killed"
        )
        if not self._parent.kill():
            say(f"{self._name} is not gone {DEATH:g} s after it was killed")
            return
        try:
            self._server.call(*self._plan.farewell, self._worker)
        except OSError as error:
            say(f"what {self._name} held is free when its lease ends ({error})")

    @property
    def _name(self) -> str:
        return f"the worker {self._worker.decode()}"


def say(text: str) -> None:
    """A line for the worker's log."""
    try:
        os.write(2, f"callboard: {text}\n".encode())
    except OSError:
        return  # the reader of the log is gone, too


def main(descriptor: int) -> None:
    """Keeps the lease of the process that started this one."""
    # Ctrl-C and `systemctl stop` reach every process; the worker drains then, and has to be kept meanwhile.
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    board = memoryview(mmap.mmap(descriptor, BOARD_SIZE, access=mmap.ACCESS_READ)).cast("d")
    received = b""
    while b"\n" not in received:
        data = os.read(0, 65536)
        if not data:
            return
        received += data
    first, _, rest = received.partition(b"\n")
    plan = KeeperPlan(first)
    if os.getppid() != plan.parent:
        return
    try:
        keeper = KeeperLoop(plan, board)
        keeper.take(rest)
        keeper.run()
    except (ProcessLookupError, FileNotFoundError):
        return  # the worker ended while it was looked at


if __name__ == "__main__":
    main(int(sys.argv[1]))
    os._exit(0)
