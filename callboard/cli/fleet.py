"""Supervised processes on one server, as `up` and the demo run them, and the board that shows them."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TextIO

from callboard.broker.errors import BrokerError
from callboard.broker.redis.keys import CONTROL
from callboard.broker.redis.operations.pulse import Pulse
from callboard.foundation.tasks import meanwhile
from callboard.process.starting import Forks, Programs, Starter, can_fork
from callboard.process.supervisor import (
    Ending,
    ProcessPlan,
    Reloader,
    RestartPolicy,
    Supervisor,
    environment,
    worker_command,
)

from .output import fitted, remark, say

if TYPE_CHECKING:
    from callboard.broker.redis.client.transport import RedisTransport
    from callboard.broker.redis.operations.views import PulseView
    from callboard.process.supervisor import Child


REMEMBERED: Final = 200  # lines above the pane that are shown again after a resize
USUAL_SIZE: Final = os.terminal_size((80, 24))

UP, CLEAR_BELOW, CLEAR_ALL = "\x1b[{}A", "\x1b[J", "\x1b[H\x1b[2J"


class Pane:
    """Draws lines at the bottom of a terminal, and draws them again when they change or the terminal is resized.

    After a resize it is not known where the old lines are: some terminals break long lines anew, others cut them.
    So the screen is cleared then, and what stood on it is written again. Once the terminal is closed, nothing is shown.

    Args:
        stream: Writes to a terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._above: deque[str] = deque(maxlen=REMEMBERED)
        self._size = self.size()
        self._drawn = 0
        self._is_gone = False

    def size(self) -> os.terminal_size:
        """Columns and lines of the terminal."""
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            return USUAL_SIZE
        return size if size.columns and size.lines else USUAL_SIZE

    def draw(self, lines: Sequence[str], above: Sequence[str] = ()) -> None:
        """Show these lines instead of the ones before.

        Args:
            lines: None of them wider than the terminal; those that it has no room for are left out.
            above: Lines that come to stand above them, of any width.
        """
        self._above += above
        size = self.size()
        if size == self._size:
            text = self._erase() + "".join(f"{line}\r\n" for line in above)
        else:
            self._size = size
            text = CLEAR_ALL + "".join(f"{line}\r\n" for line in self._last(size, len(lines)))
        shown = lines[: max(1, size.lines - 1)]
        self._drawn = len(shown)
        self._write(text + "\r\n".join(shown))

    def close(self) -> None:
        """Leave the lines where they are; what is written next comes below."""
        if self._drawn:
            self._write("\r\n")
        self._drawn = 0

    def _write(self, text: str) -> None:
        if self._is_gone:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            # The terminal was closed: the fleet must go on without the board.
            self._is_gone = True

    def _erase(self) -> str:
        if not self._drawn:
            return ""
        return "\r" + (UP.format(self._drawn - 1) if self._drawn > 1 else "") + CLEAR_BELOW

    def _last(self, size: os.terminal_size, taken: int) -> list[str]:
        """The last lines above, as many as a screen of this size has room for."""
        room, chosen = size.lines - taken - 1, list[str]()
        for line in reversed(self._above):
            room -= max(1, -(-len(line) // size.columns))
            if room < 0:
                break
            chosen.append(line)
        return chosen[::-1]


WINDOW = 5.0  # seconds over which a rate is measured


class Row(NamedTuple):
    """One agent type.

    Attributes:
        type: The agent type.
        up: Processes that run.
        wanted: Processes that should.
        waiting: Messages that wait; None: not known.
        running: Messages that handlers run.
        done: Messages handled.
        dead: Dead letters that are there now.
        died: Dead letters ever written.
        rate: Messages handled per second.
        asking: Handlers that wait for an answer, without a process.
    """

    type: str
    up: int
    wanted: int
    waiting: int | None
    running: int
    done: int
    dead: int
    died: int
    rate: float
    asking: int = 0


class Meter:
    """Makes rows of looks; remembers a few seconds of them for the rates."""

    def __init__(self) -> None:
        self._past: deque[tuple[float, Mapping[str, int]]] = deque()

    def rows(self, view: PulseView, children: Sequence[Child]) -> list[Row]:
        """One row per agent type that runs here."""
        by_type = {one.type: one for one in view.types}
        at = view.at / 1000
        self._past.append((at, {name: one.done for name, one in by_type.items()}))
        while len(self._past) > 2 and self._past[1][0] <= at - WINDOW:
            self._past.popleft()
        names = dict.fromkeys(name for child in children for name in child.plan.types)
        return [
            self._row(name, view, [child for child in children if name in child.plan.types]) for name in names
        ]

    def _row(self, name: str, view: PulseView, children: Sequence[Child]) -> Row:
        up = sum(any(child.has(worker.name) for worker in view.workers) for child in children)
        one = next((one for one in view.types if one.type == name), None)
        if one is None:
            return Row(name, up, len(children), 0, 0, 0, 0, 0, 0.0)
        rate = self._rate(name)
        return Row(
            name, up, len(children), one.waiting, one.running, one.done, one.dead, one.died, rate, one.asking
        )

    def _rate(self, name: str) -> float:
        (since, before), (now, after) = self._past[0], self._past[-1]
        return (after[name] - before.get(name, 0)) / (now - since) if now > since else 0.0


class Board(Protocol):
    """The place where a run is shown; also the listener of its supervisor."""

    every: float

    def show(self, rows: Sequence[Row]) -> None:
        """Show the present state."""
        ...

    def output(self, child: Child, line: str) -> None:
        """A line that a process wrote."""
        ...

    def notice(self, text: str) -> None:
        """Something that a person should know."""
        ...


class PlainBoard:
    """A line when something changed: after one second, then after two, four and so on, at last once a minute.

    It is read in a journal, for days. A process that came or died and a new dead letter are told within a second.
    """

    every = 1.0
    longest = 60.0

    def __init__(self, write: Callable[[str], None] = say) -> None:
        self._write = write
        self._shown: dict[str, Row] = {}
        self._pause = self.every
        self._printed = -math.inf

    def show(self, rows: Sequence[Row]) -> None:
        """Print the types that changed."""
        since = time.monotonic() - self._printed
        if since < self.every:
            return
        shown = self._shown
        changed = [
            row for row in rows if row.type not in shown or shown[row.type]._replace(rate=row.rate) != row
        ]
        is_news = any(row.type not in shown or _news(shown[row.type]) != _news(row) for row in changed)
        if is_news or (changed and since >= self._pause):
            self._printed = time.monotonic()
            self._pause = min(2 * self._pause, self.longest)
            self._write(f"{time.strftime('%H:%M:%S')} {' | '.join(plain_row(row) for row in changed)}")
            self._shown.update({row.type: row for row in changed})

    def output(self, child: Child, line: str) -> None:
        """To stderr, with the name of the process in front."""
        remark(f"{child.plan.name} | {line}")

    def notice(self, text: str) -> None:
        """To stderr."""
        remark(f"callboard: {text}")


def _news(row: Row) -> tuple[int, ...]:
    return row.up, row.wanted, row.died


def plain_row(row: Row) -> str:
    """`counter 1/1 up, 0 waiting, 2 running, 17 done, 0 dead now, 0 dead ever, 3.4/s`."""
    waiting = "?" if row.waiting is None else row.waiting
    asking = f"{row.asking} asking, " if row.asking else ""
    counts = f"{waiting} waiting, {row.running} running, {asking}{row.done} done"
    return f"{row.type} {row.up}/{row.wanted} up, {counts}, {row.dead} dead now, {row.died} dead ever, {row.rate:.1f}/s"


class LiveBoard:
    """A table that stays at the bottom of the terminal."""

    every = 0.25

    def __init__(self, pane: Pane) -> None:
        self._pane = pane
        self._rows: Sequence[Row] = ()

    def show(self, rows: Sequence[Row]) -> None:
        """Draw the table anew."""
        self._rows = rows
        self._draw()

    def output(self, child: Child, line: str) -> None:
        """Above the table, with the name of the process in front."""
        self._draw(f"{child.plan.name} | {line}")

    def notice(self, text: str) -> None:
        """Above the table."""
        self._draw(f"callboard: {text}")

    def _draw(self, *above: str) -> None:
        size = self._pane.size()
        lines = table(self._rows, size.columns) if self._rows else []
        self._pane.draw(self._cut(lines, size), above)

    def _cut(self, lines: Sequence[str], size: os.terminal_size) -> Sequence[str]:
        """As many lines as the terminal has room for; the last one says how many types it has no room for."""
        room = max(1, size.lines - 1)
        if len(lines) <= room:
            return lines
        kept = lines[: room - 1]
        has_header = len(lines) == len(self._rows) + 1
        shown = max(0, len(kept) - 1) if has_header else len(kept) // NARROW
        return [*kept, f"... and {len(self._rows) - shown} more types"[: size.columns]]


DEAD_NOW: Final = "DEAD NOW"
COLUMNS: Final = ("TYPE", "PROCESSES", "WAITING", "RUNNING", "ASKING", "DONE", "RATE", DEAD_NOW, "DEAD EVER")
DROPPED: Final = ("DEAD EVER", "RATE", "PROCESSES", "DONE", DEAD_NOW)
"""Columns that a narrow terminal goes without, the first one first."""
NARROW: Final = 3  # lines for a type where there is no room for columns
RED, DIM, PLAIN = "\x1b[31m", "\x1b[2m", "\x1b[0m"


def table(rows: Sequence[Row], width: int) -> list[str]:
    """The rows as a table that is no wider than `width`: without its less important columns, or with two lines per row."""
    asking = any(row.asking for row in rows)
    chosen = [i for i, name in enumerate(COLUMNS) if asking or name != "ASKING"]
    names, cells = [COLUMNS[i] for i in chosen], [[_cells(row)[i] for i in chosen] for row in rows]
    lines = fitted(names, cells, width, DROPPED, numbers=names[1:])
    if lines:
        return _coloured(lines, rows)
    return [
        line
        for row in rows
        for line in (row.type[:width], f"  {row.waiting} waiting"[:width], f"  {row.running} running"[:width])
    ]


def _cells(row: Row) -> tuple[str, ...]:
    waiting = "?" if row.waiting is None else f"{row.waiting:,}"
    counts = (
        waiting,
        f"{row.running:,}",
        f"{row.asking:,}",
        f"{row.done:,}",
        f"{row.rate:,.1f}/s",
        f"{row.dead:,}",
        f"{row.died:,}",
    )
    return (row.type, f"{row.up}/{row.wanted}", *counts)


def _coloured(lines: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """The table with a dim header, and with dead letters in red where there are some."""
    header, *others = lines
    begin = header.find(DEAD_NOW)
    if os.environ.get("NO_COLOR"):
        return list(lines)
    coloured = [f"{DIM}{header}{PLAIN}"]
    for line, row in zip(others, rows, strict=True):
        end = begin + len(DEAD_NOW)
        is_red = begin >= 0 and row.dead > 0
        coloured.append(f"{line[:begin]}{RED}{line[begin:end]}{PLAIN}{line[end:]}" if is_red else line)
    return coloured


@contextlib.contextmanager
def board(*, to_stderr: bool = False) -> Iterator[Board]:
    """The board for this output: live on a terminal, else plain.

    Args:
        to_stderr: Stdout is used for other output.
    """
    if not (sys.stderr.isatty() and (to_stderr or sys.stdout.isatty())):
        yield PlainBoard(remark if to_stderr else say)
        return
    pane = Pane(sys.stderr)
    try:
        yield LiveBoard(pane)
    finally:
        pane.close()


WORTH_A_FORK: Final = 3  # processes: for fewer, the server that makes them takes what they save
ALL_TYPES: Final = "all"
"""The name of a process that runs all agent types."""
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """The processes to run, and the settings that they share.

    Attributes:
        target: `module:app`.
        processes: The number of processes for each agent type.
        together: The number of processes that run all of these agent types instead; 0: each type has its own.
        url: Of the server; None: the embedded one.
        namespace: The namespace on it.
        grace: Seconds that running handlers get.
        policy: When to restart.
        options: Further options of `callboard worker`.
        environ: Added to the environment of the processes.
        fork: Where there are several, they share what they load of installed packages.
    """

    target: str
    processes: Mapping[str, int]
    url: str | None
    namespace: str
    grace: float
    policy: RestartPolicy
    options: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    together: int = 0
    fork: bool = True

    def starter(self, notice: Callable[[str], None]) -> Starter:
        """What starts the processes."""
        environ = {**environment(self.url), **self.environ}
        if self.fork and can_fork() and len(self.plans()) >= WORTH_A_FORK:
            return Forks(self.target, environ, notice)
        return Programs(environ)

    def plans(self) -> list[ProcessPlan]:
        """One per process; several of the same are numbered."""
        if self.together:
            return self._plans(ALL_TYPES, tuple(self.processes), self.together)
        return [plan for name, count in self.processes.items() for plan in self._plans(name, (name,), count)]

    def _plans(self, name: str, types: tuple[str, ...], count: int) -> list[ProcessPlan]:
        command = worker_command(
            self.target, types, namespace=self.namespace, grace=self.grace, options=self.options
        )
        return [
            ProcessPlan(name=name if count == 1 else f"{name}.{number}", types=types, command=command)
            for number in range(1, count + 1)
        ]


class Fleet:
    """The processes of a plan, run by a supervisor and shown on a board.

    Args:
        plan: The processes to run.
        transport: To inspect the namespace, and to give back the messages that a dead process held.
        board: Shows the run.
        revive: Starts the server again if it died.
    """

    def __init__(
        self,
        plan: FleetPlan,
        transport: RedisTransport,
        board: Board,
        revive: Callable[[], Awaitable[None]],
    ) -> None:
        self.supervisor = Supervisor(
            plan.plans(),
            listener=board,
            release=self._release,
            grace=plan.grace,
            policy=plan.policy,
            starter=plan.starter(board.notice),
            patience=transport.settings.lease,
            # A worker may wait so long for an answer until it notices that the server it asked is gone.
            patience_after_loss=transport.settings.lease + transport.settings.socket_timeout,
        )
        self._transport = transport
        self._board = board
        self._revive = revive
        self._meter = Meter()
        self._pulse = Pulse(transport, plan.processes)
        self._looked_at = 0.0

    async def run(self) -> Ending:
        """Run until a signal, or `supervisor.stop()`.

        Raises:
            CommandError: The user of the server may not work; nothing was started.
            WorkerProcessError: A process died too often, or would always end so.
        """
        await self._check_rights()
        watching = asyncio.create_task(self._watch())
        try:
            with self._signals():
                return await self.supervisor.run()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            with contextlib.suppress(BrokerError):
                await self.look()

    async def _check_rights(self) -> None:
        """Ask what every worker begins with: a user without the right is told once, and not by each process."""
        admin = self._transport.admin
        newest = ("XREVRANGE", self._transport.keys.of(CONTROL), "+", "-", "COUNT", 1)
        await admin.despite_losses(lambda: admin.command(*newest))

    async def look(self) -> PulseView:
        """Show the present state of the namespace.

        Raises:
            BrokerError: The server does not answer.
        """
        view = await self._pulse.look()
        self._excuse_a_gap()
        self._board.show(self._meter.rows(view, self.supervisor.children))
        leases = {worker.name: view.at + worker.lease_ms_left for worker in view.workers}
        self.supervisor.observe(leases, view.at)
        return view

    def _every(self) -> float:
        """Seconds between two looks: the board's, or more for a large fleet, so that the server has other things to do."""
        return min(max(self._board.every, self._pulse.every), self._transport.settings.lease / 4)

    def _excuse_a_gap(self) -> None:
        """Between two looks the server stood still, or this machine did: the leases that ended meanwhile say nothing."""
        now = asyncio.get_running_loop().time()
        longest = self._every() + self._transport.settings.lease / 2
        if self._looked_at and now - self._looked_at > longest:
            self.supervisor.server_is_away()
        self._looked_at = now

    async def _watch(self) -> None:
        complained = False
        while True:
            try:
                await self.look()
                complained = False
            except BrokerError as error:
                if not complained:
                    self._board.notice(f"{error}; trying again")
                complained = True
                self.supervisor.server_is_away()
                with contextlib.suppress(BrokerError):
                    await self._revive()
            await asyncio.sleep(self._every())

    async def _release(self, workers: str, crashed: bool) -> None:
        await self._transport.admin.run("leave", ("1" if crashed else "0", "", workers))

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in STOPPING:
            loop.add_signal_handler(number, self._stop)
        for number in PASSED_ON:
            loop.add_signal_handler(number, self.supervisor.forward, number)
        try:
            yield
        finally:
            for number in (*STOPPING, *PASSED_ON):
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        if not self.supervisor.is_stopping:
            self._board.notice("draining: handlers that run may finish; once more stops at once")
        self.supervisor.stop()


def reloading(fleet: Fleet, plan: FleetPlan, board: Board) -> AbstractAsyncContextManager[None]:
    """Start the processes of a fleet anew, within it, when a Python file in the current folder or below changes."""
    reloader = Reloader(
        plan.target,
        plan.processes,
        folder=Path.cwd(),
        notice=board.notice,
        renew=fleet.supervisor.renew,
    )
    return meanwhile(reloader.run(), "callboard-reloader")
