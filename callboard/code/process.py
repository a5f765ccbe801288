"""One run of a program under the launcher: how far the system confines it, and its output."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, cast

from callboard.code.launcher import CANCELLED, KILLED, LANDLOCK, NAMESPACES, SECCOMP, LaunchPlan
from callboard.core.cancellation import CancellationToken

from .base import ConfinementError
from .workspace import WorkFolder

Measure = Literal["network", "writing", "reading", "processes", "memory"]

#: The first version of Landlock that covers cutting a file off.
COVERS_TRUNCATE = 3


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """Measures in force while code runs. Limits, the clean environment and the closed input are always.

    None of it makes a sandbox: a fault in the kernel leads out of it.

    Attributes:
        network: Code can make no sockets: it has no network, and reaches no server on this machine either.
        writing: Code writes to no file outside its work folder, and leaves nothing in the kernel's keyrings. Without
            `namespaces` it can still change the modes and times of files that belong to its user.
        reading: Code reads nothing but its work folder, the system's programs and libraries, Python, and `readable`; no
            key of the kernel's keyrings either.
        processes: Code can look into, and signal, no processes but its own, and none of them outlives the run. Without
            `proc` it can see that others are there.
        memory: Code can't have memory that belongs to no process, which the limit would not see: shared memory of SysV,
            queues of messages, files in memory, and file systems in memory beside /dev/shm.
        measures: The means that the system allows, of `namespaces`, `proc`, `seccomp`, `landlock`.
    """

    network: bool
    writing: bool
    reading: bool
    processes: bool
    memory: bool
    measures: tuple[str, ...] = ()

    @classmethod
    def of(cls, measures: Iterable[str], *, landlock: int = 0, network: bool = False) -> Confinement:
        """The confinement that some measures come to.

        Args:
            measures: Those that work.
            landlock: Version of Landlock.
            network: The network is allowed.
        """
        taken = tuple(measures)
        return cls(
            network=SECCOMP in taken and not network,
            writing=SECCOMP in taken and (NAMESPACES in taken or landlock >= COVERS_TRUNCATE),
            reading=SECCOMP in taken and LANDLOCK in taken,
            processes=NAMESPACES in taken,
            memory=SECCOMP in taken,
            measures=taken,
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the attributes that are not in force."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name) is False)

    def require(self, required: bool | Iterable[Measure]) -> None:
        """Make sure that something is in force.

        Args:
            required: Names of attributes; True: all of them; False: none.

        Raises:
            ConfinementError: It is not (a RuntimeError).
        """
        if required is False:
            return
        wanted = set(self.missing if required is True else required)
        missing = [name for name in self.missing if name in wanted]
        if missing:
            raise ConfinementError(missing)

    def __str__(self) -> str:
        lacking = f"; not in force: {', '.join(self.missing)}" if self.missing else ""
        return f"confined by {', '.join(self.measures) or 'limits only'}{lacking}"


def launcher_command(module: str, plan: LaunchPlan) -> list[str]:
    """The command of a module of the launcher, which `launcher/__init__.py` tells about."""
    folder = str(Path(__file__).parent)
    start = f"import sys; sys.path.insert(0, {folder!r}); from launcher.{module} import main; main()"
    return [sys.executable, "-I", "-S", "-c", start, plan.to_json()]


async def detect(plan: LaunchPlan) -> Confinement:
    """Find out what this system allows, by trying it in processes of its own.

    Args:
        plan: A run; its folder need not exist.
    """
    folder = WorkFolder(None)
    try:
        command = launcher_command("probe", plan._replace(folder=str(folder.open())))
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={"PATH": os.defpath},
            start_new_session=True,
        )
        answer = (await process.communicate())[0]
    finally:
        folder.remove()
    if process.returncode != 0:
        return Confinement.of((), network=plan.network)
    found = json.loads(answer)
    return Confinement.of(found["measures"], landlock=found["landlock"], network=plan.network)


class KeptOutput:
    """Takes bytes, keeps those of the beginning and those of the end.

    Args:
        kept: Bytes to keep: half from each end.
    """

    def __init__(self, kept: int) -> None:
        self._half = max(1, kept // 2)
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.size = 0

    def add(self, data: bytes) -> None:
        """Take what came next."""
        self.size += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= self._half:
            self._tail_size -= len(self._tail.popleft())

    def text(self) -> str:
        """The kept output as text; between its two parts it says how much was left out.

        What is not UTF-8, and the character NUL, which many a store refuses, are shown as U+FFFD.
        """
        tail = b"".join(self._tail)[-self._half :]
        left_out = self.size - len(self._head) - len(tail)
        if left_out == 0:
            return _readable(bytes(self._head) + tail)
        return f"{_readable(self._head)}\n[... {left_out} bytes of output left out ...]\n{_readable(tail)}"


def _readable(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")


#: Seconds for a launcher to end by itself before it is killed, and for the output of what it left.
GRACE, OUTPUT_GRACE = 10.0, 1.0
CHUNK = 1 << 16


async def run(
    plan: LaunchPlan, environ: Mapping[str, str], tokens: Iterable[CancellationToken], output: int, kept: int
) -> tuple[int, str]:
    """Run a plan; returns exit code and output. When it returns or raises, nothing of the run is left.

    Args:
        plan: What to run.
        environ: Its whole environment.
        tokens: Each stops it; the exit code is 125 then.
        output: Bytes of output after which it is stopped.
        kept: Bytes of output to keep.

    Raises:
        asyncio.CancelledError: The task was cancelled.
    """
    stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    for token in tokens:
        token.link_future(stop)
    task = asyncio.create_task(_Run(plan, output, kept).run(environ, stop))
    try:
        return await asyncio.shield(task)
    finally:
        stop.cancel()
        await _settled(task)


async def _settled(task: asyncio.Task[Any]) -> None:
    """Wait for the end of a task that ends soon, however often the waiting task is cancelled meanwhile."""
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


class _Run:
    def __init__(self, plan: LaunchPlan, output: int, kept: int) -> None:
        self._plan = plan
        self._output_limit = output
        self._output = KeptOutput(kept)

    async def run(self, environ: Mapping[str, str], stop: asyncio.Future[None]) -> tuple[int, str]:
        if stop.done():
            return CANCELLED, "Cancelled"
        process = await asyncio.create_subprocess_exec(
            *launcher_command("main", self._plan),
            stdin=PIPE,
            stdout=PIPE,
            stderr=STDOUT,
            env=dict(environ),
            cwd="/",
            start_new_session=True,
            limit=CHUNK,
        )
        code = await self._watch(process, stop)
        text = self._output.text()
        if self._output.size > self._output_limit:
            return KILLED, f"{text}\nStopped: it wrote more than {self._output_limit} bytes of output."
        return (code, f"{text}\nCancelled") if code == CANCELLED and stop.done() else (code, text)

    async def _watch(self, process: Process, stop: asyncio.Future[None]) -> int:
        ended = asyncio.create_task(process.wait())
        read = asyncio.create_task(self._read(process, stop))
        waiting: set[asyncio.Future[Any]] = {ended, stop}
        await asyncio.wait(waiting, timeout=self._plan.timeout + GRACE, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            # The end of its input is the launcher's order to stop everything
            cast("asyncio.StreamWriter", process.stdin).close()
            await asyncio.wait({ended}, timeout=GRACE)
        if not ended.done():
            process.kill()
        code = await ended
        await asyncio.wait({read}, timeout=OUTPUT_GRACE)
        read.cancel()
        await asyncio.wait({read})
        return code if code >= 0 else 128 - code

    async def _read(self, process: Process, stop: asyncio.Future[None]) -> None:
        stdout = cast("asyncio.StreamReader", process.stdout)
        while data := await stdout.read(CHUNK):
            if self._output.size <= self._output_limit:
                self._output.add(data)
            elif not stop.done():
                stop.cancel()
