"""Keeps processes running: starts them, restarts those that die or whose files change, drains them, leaves none behind."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import signal
import sys
import sysconfig
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from callboard.broker.errors import BrokerError
from callboard.broker.redis.client.identity import new_token, process_name

from .starting import WATCHED_PIPE, Programs, Starter, WorkerProcess, python
from .worker import RECYCLED, UNFIT, WorkerProcessError

LAST_OUTPUT = 0.5  # seconds to wait for the last output of a dead process
KILL_MARGIN = 5.0  # seconds a process gets beyond the grace period before it is killed

State = Literal["new", "running", "waiting", "draining", "ended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPlan:
    """One process to keep running.

    Attributes:
        name: Prefix of its output; unique.
        types: The agent types that it runs.
        command: Program and arguments; `WATCHED_PIPE` in them is replaced.
    """

    name: str
    types: tuple[str, ...]
    command: tuple[str, ...]


Verdict = Literal["fine", "lost", "missing", "back", "gone"]
"""What a look says: all is well or not known; the lease has just been lost; is still; is there again; did not come back."""


class LeaseWatch:
    """The lease of one process, looked at about once a second.

    A process that has not joined yet is only slow to start, and one that has left drains: neither is taken for frozen.

    Args:
        patience: Seconds that a process gets to come back after its lease was lost.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._leased_until = 0  # server ms; 0: it has not joined, or has left
        self._lost_since: float | None = None

    def look(self, ends: Sequence[int], now_ms: int, now: float) -> Verdict:
        """Looks once.

        Args:
            ends: When the leases of its workers end, server ms: of the present incarnation, and maybe of an earlier one.
            now_ms: The server's time.
            now: The time here, seconds.
        """
        if ends and max(ends) >= now_ms:
            was_lost, self._lost_since = self._lost_since is not None, None
            self._leased_until = max(ends)
            return "back" if was_lost else "fine"
        # Reaped is only whose lease has ended: a worker whose name went before that has left, and may take its time to end.
        # guard: a process that has left is not taken for frozen
        if not ends and self._leased_until > now_ms:
            self._leased_until = 0
        # guard: a process that has not joined is not taken for frozen
        if not self._leased_until:
            return "fine"
        if self._lost_since is None:
            self._lost_since = now
            return "lost"
        # guard: a process gets time to come back
        if now - self._lost_since < self._patience:
            return "missing"
        self._lost_since = now
        return "gone"

    def forgive(self) -> None:
        """The server was away: the time without a lease does not count."""
        self._lost_since = None


@dataclass(slots=True)
class Child:
    """One process as the supervisor sees it.

    Attributes:
        plan: The process to run.
        state: `new`, `running`, `waiting` (for its restart), `draining` or `ended`.
        pid: Of the running process; 0 when there is none.
        token: Of the running process, which it was started with.
        restarts: In a row.
        deaths: All in all, not counting the one that the supervisor asked for.
        renewing: It was told to end so that another takes its place; or to start at once, where it waits for that.
        watch: Sees whether its worker has lost its lease.
    """

    plan: ProcessPlan
    state: State = "new"
    pid: int = 0
    token: str = ""
    restarts: int = 0
    deaths: int = 0
    renewing: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    watch: LeaseWatch = field(default_factory=lambda: LeaseWatch(0.0), repr=False)
    process: WorkerProcess | None = field(default=None, repr=False)

    @property
    def workers(self) -> str:
        """The beginning of the names of its workers, and of no other process's."""
        return f"{process_name(self.pid, self.token)}:"

    def has(self, worker: str) -> bool:
        """Whether a worker of this name is this process, as it runs now."""
        return bool(self.pid) and worker.startswith(self.workers)


class Ending(enum.Enum):
    """The ways in which a supervised run ends."""

    DRAINED = "drained"
    KILLED = "killed"


class Listener(Protocol):
    """The receiver of everything that a supervisor reports."""

    def output(self, child: Child, line: str) -> None:
        """A process wrote a line, on stdout or stderr."""
        ...

    def notice(self, text: str) -> None:
        """The supervisor did something that a person should know."""
        ...


Release = Callable[[str, bool], Awaitable[None]]
"""Called with what the names of a dead process's workers begin with, and whether what it ran counts as an attempt."""


class Supervisor:
    """Runs worker processes: it starts them, restarts those that die or are frozen, and drains them in the end.

    A process that ends with status `RECYCLED` has drained because it passed a limit: another is started at once, which
    is no restart in the sense of the policy.

    Every process gets a session of its own, so that Ctrl-C in the terminal reaches the supervisor alone. It also gets
    the reading end of a pipe whose writing end only the supervisor has: it reads end of file when the supervisor is
    gone, even after kill -9, which leaves no time to tell anyone.

    Args:
        plans: The processes.
        listener: Gets the output and the notices.
        release: Gives back at once the messages that a dead process held.
        grace: Seconds that running handlers get when the processes are drained.
        policy: When to restart.
        starter: How they are started; None: each as a program, with the environment of this process.
        patience: Seconds that a process without a lease gets to come back before it is killed.
        patience_after_loss: The same after the server was away.
    """

    def __init__(
        self,
        plans: Sequence[ProcessPlan],
        *,
        listener: Listener,
        release: Release,
        grace: float,
        policy: RestartPolicy | None = None,
        starter: Starter | None = None,
        patience: float = 5.0,
        patience_after_loss: float = 15.0,
    ) -> None:
        self.children = [Child(plan) for plan in plans]
        self._listener = listener
        self._release = release
        self._grace = grace
        self._policy = policy or RestartPolicy()
        self._starter = starter or Programs(os.environ)
        self._patience = patience
        self._patience_after_loss = patience_after_loss
        self._lenient_until = 0.0
        self._stopping = asyncio.Event()
        self._killing = asyncio.Event()

    @property
    def running(self) -> int:
        """Processes that run now."""
        return sum(child.pid != 0 for child in self.children)

    @property
    def is_stopping(self) -> bool:
        """True once it was told to stop, or gave up."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Drains the processes; called again, kills them at once."""
        if self._stopping.is_set():
            self._killing.set()
        self._stopping.set()

    def renew(self) -> None:
        """Drains every process and starts another in its place; one that waits for its restart starts at once."""
        self._starter.renew()
        for child in self.children:
            # Told twice, it would end at once; and what takes its place imports what is there by then.
            if not child.renewing.is_set():
                child.renewing.set()
                self._signal(child, signal.SIGTERM)

    def forward(self, number: int) -> None:
        """Passes a signal on to every process."""
        for child in self.children:
            self._signal(child, number)

    # Processes that live and do not work

    def observe(self, leases: Mapping[str, int], now_ms: int) -> None:
        """Ends processes that live while their worker has lost its lease: stopped, or hanging in a call for too long.

        To be called about once a second while the server answers.

        Args:
            leases: When the lease of each worker ends, server ms; also of workers that are not ours.
            now_ms: The server's time.
        """
        now = asyncio.get_running_loop().time()
        for child in self.children:
            if child.state != "running" or not child.pid:
                continue
            ends = [until for worker, until in leases.items() if child.has(worker)]
            verdict = child.watch.look(ends, now_ms, now)
            # guard: after the server was away nobody is killed at once
            if now < self._lenient_until:
                child.watch.forgive()
                continue
            self._judge(child, verdict)

    def _judge(self, child: Child, verdict: Verdict) -> None:
        who = f"{child.plan.name}: process {child.pid}"
        if verdict == "lost":
            self._listener.notice(
                f"{who} lives, but its worker has lost its lease: it is stopped, or hangs in a call; "
                f"it is killed and replaced unless it comes back within {self._patience:g} s"
            )
        elif verdict == "back":
            self._listener.notice(f"{who} works again")
        elif verdict == "gone":
            self._listener.notice(f"{who} did not come back, killing it")
            self._signal(child, signal.SIGKILL)

    def server_is_away(self) -> None:
        """The server does not answer: which worker is frozen can't be told. When it is back, workers need some time."""
        self._lenient_until = asyncio.get_running_loop().time() + self._patience_after_loss
        for child in self.children:
            child.watch.forgive()

    async def run(self) -> Ending:
        """Starts the processes and returns when all have ended after `stop`.

        Raises:
            WorkerProcessError: One died too often, or would always end so; the others were drained.
        """
        # `held` is not inheritable, so no child has a copy of the writing end: closing it here, or dying, is end of file
        # for all of them.
        watched, held = os.pipe()
        tasks = [asyncio.create_task(self._keep(child, watched)) for child in self.children]
        closing = asyncio.create_task(self._close_down())
        try:
            # Not gather: cancelling that would cancel the tasks, and each has to see its process end.
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            if errors := [error for task in done if (error := task.exception()) is not None]:
                self._stopping.set()
                await asyncio.wait(tasks)
                raise errors[0]
            return Ending.KILLED if self._killing.is_set() else Ending.DRAINED
        finally:
            # However this ends, also by cancellation, no process is left, and the messages that it held are given back.
            # The pipe is closed last: closed earlier, workers would begin to drain by themselves while they are killed.
            self._stopping.set()
            self._killing.set()
            await asyncio.wait([*tasks, closing])
            await self._starter.close()
            os.close(watched)
            os.close(held)

    # One process

    async def _keep(self, child: Child, watched: int) -> None:
        while not self._stopping.is_set():
            lived, code = await self._run_once(child, watched)
            if self._stopping.is_set():
                break
            if child.renewing.is_set():
                child.restarts = 0
                continue
            if code == RECYCLED:
                self._listener.notice(f"{child.plan.name} has recycled itself, starts again")
                continue
            if code == UNFIT:
                child.state = "ended"
                raise WorkerProcessError(
                    f"{child.plan.name} can't work here, its output says why; to start it again would not help",
                    True,
                )
            child.deaths += 1
            child.restarts = 1 if lived >= self._policy.healthy_after else child.restarts + 1
            await self._pause(child, describe_exit(code))
        child.state = "ended"

    async def _run_once(self, child: Child, watched: int) -> tuple[float, int]:
        loop = asyncio.get_running_loop()
        since, token = loop.time(), new_token()
        reading, writing = os.pipe()
        try:
            process = await self._starter.start(child.plan.command, watched, writing, token)
        except BaseException:
            os.close(reading)
            raise
        finally:
            # The child has its own copies. If ours stayed open, `reading` would never come to its end.
            os.close(writing)
        child.process, child.pid, child.token, child.state = process, process.pid, token, "running"
        child.renewing.clear()
        child.watch = LeaseWatch(self._patience)
        copying = asyncio.create_task(self._copy_output(child, reading))
        # A stop that came while the process was being started found no process to signal, so it is told here. There is
        # no await between the line that makes the process known and this one: it is told at least once.
        if self._stopping.is_set():
            self._signal(child, signal.SIGKILL if self._killing.is_set() else signal.SIGTERM)
        code = await process.wait()
        await self._bury(child, code)
        # A process that the child started may keep the pipe open, so its end is waited for only briefly.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_OUTPUT):
                await copying
        return loop.time() - since, code

    async def _bury(self, child: Child, code: int) -> None:
        # Forgotten before the first await: while the server is asked, `stop` and `forward` must not signal a pid that the
        # system may give to another program.
        pid, workers, child.pid, child.process = child.pid, child.workers, 0, None
        if code in (0, RECYCLED, UNFIT):
            return
        try:
            # A process that we killed did not fail: the handlers that it ran count as no attempts.
            await self._release(workers, not self._killing.is_set())
        except BrokerError as error:
            self._listener.notice(
                f"{child.plan.name}: what process {pid} held is free when its lease ends ({error})"
            )

    async def _pause(self, child: Child, ending: str) -> None:
        pause = self._policy.pause(child.restarts)
        if pause is None:
            child.state = "ended"
            often = "once" if child.restarts == 2 else f"{child.restarts - 1} times"
            raise WorkerProcessError(
                f"{child.plan.name} {ending} after it was restarted {often}: giving up, its output says why"
            )
        child.state = "waiting"
        # Waits for what may come, not only for the time: a supervisor that stops during a long pause ends at once.
        self._listener.notice(f"{child.plan.name} {ending}, starts again in {pause:g} s")
        events = [asyncio.ensure_future(event.wait()) for event in (self._stopping, child.renewing)]
        try:
            await asyncio.wait(events, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for event in events:
                event.cancel()

    async def _copy_output(self, child: Child, descriptor: int) -> None:
        async with reader_of(descriptor) as reader:
            async for line in lines(reader):
                self._listener.output(child, line)

    # All of them

    async def _close_down(self) -> None:
        await self._stopping.wait()
        for child in self.children:
            if child.pid:
                child.state = "draining"
        # A process whose start is under way gets no signal here; `_run_once` sends it one as soon as it is there.
        self._starter.hurry()
        self.forward(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._grace + KILL_MARGIN):
                await self._killing.wait()
        if self.running and not self._killing.is_set():
            self._listener.notice("the grace period is over: killing what still runs")
        self.forward(signal.SIGKILL)

    @staticmethod
    def _signal(child: Child, number: int) -> None:
        # Through the process object: it knows when the pid may belong to another process already.
        if child.process is not None and child.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.process.send_signal(number)


def describe_exit(code: int) -> str:
    """The end of a process in words, to follow its name in a sentence."""
    if code == 0:
        return "ended by itself"
    if code > 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def worker_command(
    target: str, types: Sequence[str], *, namespace: str, grace: float, options: Sequence[str] = ()
) -> tuple[str, ...]:
    """The command that runs agent types of `module:app` in a process.

    The server's URL is not part of it: a command line is public, and a URL may hold a password. See
    `environment`.

    Args:
        target: `module:app`.
        types: The agent types that it runs.
        namespace: The namespace on the server.
        grace: Seconds that running handlers get when it drains.
        options: Further options of `callboard worker`.
    """
    return (
        *python("worker", target),
        *(word for name in types for word in ("--type", name)),
        *("--namespace", namespace, "--grace", f"{grace:g}", "--watch", WATCHED_PIPE),
        *options,
    )


def environment(url: str | None, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment in which `python -m callboard` finds the server and this very package.

    Args:
        url: Of the server; None: the processes use the embedded server as well, so that it outlives their supervisor.
        environ: The variables to start from; None: the environment of this process.
    """
    result = {**(os.environ if environ is None else environ), "PYTHONUNBUFFERED": "1"}
    # A health file and a port are of one process, and these are looked after by their supervisor.
    for name in ("CALLBOARD_URL", "REDIS_URL", "CALLBOARD_HEALTH_FILE", "CALLBOARD_METRICS_PORT"):
        result.pop(name, None)
    if url is not None:
        result["CALLBOARD_URL"] = url
    root = str(Path(__file__).resolve().parents[2])
    if root not in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        result["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [result.get("PYTHONPATH")])])
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """When to start a dead process again.

    Attributes:
        limit: Restarts in a row, without a healthy time between, after which the supervisor gives up.
        base: Seconds before the first restart; doubles with each further one.
        cap: Longest pause, seconds.
        healthy_after: Seconds of life after which earlier deaths no longer count.
    """

    limit: int = 5
    base: float = 0.25
    cap: float = 30.0
    healthy_after: float = 30.0

    def pause(self, restarts: int) -> float | None:
        """Seconds before restart number `restarts` (from 1); None: no more."""
        if restarts > self.limit:
            return None
        return min(self.base * 2.0 ** (restarts - 1), self.cap)


LONGEST_LINE = 16_384  # characters of output kept together as one line


@contextlib.asynccontextmanager
async def reader_of(descriptor: int) -> AsyncIterator[asyncio.StreamReader]:
    """Reads a pipe, and closes it in the end."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader, loop=loop), pipe)
    try:
        yield reader
    finally:
        transport.close()


async def lines(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    """Its lines, without their ends; what is too long for one comes in parts."""
    rest = ""
    while chunk := await reader.read(65_536):
        *whole, rest = (rest + chunk.decode(errors="replace")).split("\n")
        for line in whole:
            yield line.rstrip("\r")
        if len(rest) > LONGEST_LINE:
            yield rest
            rest = ""
    if rest:
        yield rest


LOOK_EVERY = 0.5  # seconds between two looks at the files
TRIAL_TIMEOUT = 60.0  # seconds that importing the app may take
LEFT_OUT = frozenset({"__pycache__", "node_modules", "site-packages"})
TRIAL = """
import sys
from callboard.errors import DeclarationError
from callboard.process.loader import load_app
try:
    print("\\n" + " ".join(one.type for one in load_app(sys.argv[1]).declarations))
except DeclarationError as error:
    sys.exit(" ".join(str(error).split()))
"""

Stamp = tuple[int, int]  # ns of the last change, bytes


class Files:
    """The Python files below a folder; hidden folders and those of other people's packages are left out.

    Args:
        folder: Where.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known = self._stamps()

    def changed(self) -> list[str]:
        """The files that were changed, made or deleted since the last call, below the folder."""
        before, self._known = self._known, self._stamps()
        return sorted(
            name for name in before.keys() | self._known.keys() if before.get(name) != self._known.get(name)
        )

    def _stamps(self) -> Mapping[str, Stamp]:
        stamps: dict[str, Stamp] = {}
        for folder, folders, names in os.walk(self._folder):
            folders[:] = [name for name in folders if self._is_ours(Path(folder, name))]
            for name in names:
                if name.endswith(".py"):
                    path = Path(folder, name)
                    try:
                        status = path.stat()
                    except OSError:  # it was deleted a moment ago
                        continue
                    stamps[str(path.relative_to(self._folder))] = status.st_mtime_ns, status.st_size
        return stamps

    @staticmethod
    def _is_ours(folder: Path) -> bool:
        is_environment = (folder / "pyvenv.cfg").exists()
        return not (folder.name.startswith(".") or folder.name in LEFT_OUT or is_environment)


class Reloader:
    """Looks at the files, and has the processes started anew when a change can be imported.

    Args:
        target: `module:app`.
        types: The agent types that run.
        folder: What is watched, and where the app is imported from.
        notice: Gets what a person should know.
        renew: Starts the processes anew.
    """

    def __init__(
        self,
        target: str,
        types: Iterable[str],
        *,
        folder: Path,
        notice: Callable[[str], None],
        renew: Callable[[], None],
    ) -> None:
        self._target = target
        self._types = set(types)
        self._folder = folder
        self._files = Files(folder)
        self._notice = notice
        self._renew = renew

    async def run(self) -> None:
        """Goes on until it is cancelled."""
        self._notice(f"watching the Python files in {self._folder}")
        while True:
            await asyncio.sleep(LOOK_EVERY)
            if changed := self._files.changed():
                await self._reload(changed)

    async def _reload(self, changed: list[str]) -> None:
        shown = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")
        succeeded, text = await self._try_to_import()
        if not succeeded:
            self._notice(f"{shown} changed, and what ran goes on: {text}")
            return
        declared = set(text.split())
        if gone := self._types - declared:
            names = ", ".join(sorted(gone))
            self._notice(
                f"{shown} changed, and what ran goes on: the app has no agent type {names} any more; "
                "start `callboard up` anew"
            )
            return
        if missing := declared - self._types:
            names = ", ".join(sorted(missing))
            self._notice(f"agent types that do not run here: {names}; start `callboard up` anew for new ones")
        self._notice(f"{shown} changed: starting the processes anew")
        self._renew()

    async def _try_to_import(self) -> tuple[bool, str]:
        """In a process of its own, since a module is not imported twice: whether it went well; what was printed last."""
        # -B: a file that is changed twice within a second could be taken for the one that was compiled first.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-B", "-c", TRIAL, self._target),
            cwd=self._folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(TRIAL_TIMEOUT):
                output, _ = await process.communicate()
        except TimeoutError:
            return False, f"importing {self._target} takes longer than {TRIAL_TIMEOUT:g} s"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        last = output.decode(errors="replace").strip().rpartition("\n")[2]
        if process.returncode:
            return False, last or f"importing {self._target} ended with exit code {process.returncode}"
        return True, last
