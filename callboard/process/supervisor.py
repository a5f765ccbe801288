"""Keeps processes running: starts them, restarts those that die, drains them, and leaves none behind."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from callboard.broker.errors import BrokerError
from callboard.broker.redis.client.identity import TOKEN_VARIABLE, new_token, process_name
from callboard.errors import ActorError

from .launching import WATCHED_PIPE
from .lease_watch import LeaseWatch, Verdict
from .output import lines, reader_of
from .plan import ProcessPlan, RestartPolicy
from .worker import RECYCLED, UNFIT

__all__ = [
    "Child",
    "Ending",
    "GaveUpError",
    "Listener",
    "ProcessPlan",
    "RestartPolicy",
    "Supervisor",
    "UnfitError",
    "describe_exit",
]

LAST_OUTPUT = 0.5  # seconds to wait for the last output of a dead process
KILL_MARGIN = 5.0  # seconds a process gets beyond the grace period before it is killed

State = Literal["new", "running", "waiting", "draining", "ended"]


class GaveUpError(ActorError):
    """A process died more often than the policy allows.

    Attributes:
        name: Of the process.
        restarts: How often it was started again.
        ending: How it died the last time.
    """

    template = "{name} {ending} after it was restarted {times}: giving up, its output says why"

    name: str
    restarts: int
    ending: str

    @property
    def times(self) -> str:
        """The number of restarts in words."""
        return "once" if self.restarts == 1 else f"{self.restarts} times"


class UnfitError(ActorError):
    """A process ended by an error that would end it again.

    Attributes:
        name: Of the process.
    """

    template = "{name} can't work here, its output says why; to start it again would not help"

    name: str


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
    process: asyncio.subprocess.Process | None = field(default=None, repr=False)

    @property
    def workers(self) -> str:
        """What the names of its workers begin with, and of no other process's."""
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
        environ: Environment of the processes; None: that of this process.
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
        environ: Mapping[str, str] | None = None,
        patience: float = 5.0,
        patience_after_loss: float = 15.0,
    ) -> None:
        self.children = [Child(plan) for plan in plans]
        self._listener = listener
        self._release = release
        self._grace = grace
        self._policy = policy or RestartPolicy()
        self._environ = dict(os.environ if environ is None else environ)
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
        """The server does not answer: nobody can tell who is frozen. When it is back, workers need some time."""
        self._lenient_until = asyncio.get_running_loop().time() + self._patience_after_loss
        for child in self.children:
            child.watch.forgive()

    async def run(self) -> Ending:
        """Starts the processes and returns when all have ended after `stop`.

        Raises:
            GaveUpError: One died too often; the others were drained.
            UnfitError: One would always end so; the others were drained.
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
                raise UnfitError(child.plan.name)
            child.deaths += 1
            child.restarts = 1 if lived >= self._policy.healthy_after else child.restarts + 1
            await self._pause(child, describe_exit(code))
        child.state = "ended"

    async def _run_once(self, child: Child, watched: int) -> tuple[float, int]:
        loop = asyncio.get_running_loop()
        since, token = loop.time(), new_token()
        reading, writing = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *[part.replace(WATCHED_PIPE, str(watched)) for part in child.plan.command],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                pass_fds=(watched,),
                start_new_session=True,
                env={**self._environ, TOKEN_VARIABLE: token},
            )
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
            raise GaveUpError(child.plan.name, child.restarts - 1, ending)
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
