"""One run of a program under the launcher."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Iterable, Mapping
from typing import Any, cast

from callboard.cancellation import CancellationToken

from .confinement import launcher_command
from .launcher.plan import CANCELLED, KILLED, Plan
from .output import KeptOutput

#: Seconds for a launcher to end by itself before it is killed, and for the output of what it left.
GRACE, OUTPUT_GRACE = 10.0, 1.0
CHUNK = 1 << 16


async def run(
    plan: Plan, environ: Mapping[str, str], tokens: Iterable[CancellationToken], output: int, kept: int
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
    def __init__(self, plan: Plan, output: int, kept: int) -> None:
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
