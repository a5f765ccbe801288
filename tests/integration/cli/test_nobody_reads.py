"""Commands end on a signal although their terminal is gone, or nobody reads the pipe that they write to."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

import pytest

from tests.helpers.readers import Reader, closed_pipe, full_pipe, terminal

from .commands import ShopFolder, processes_in, wait_for, workers_in

Broken = Callable[[], AbstractContextManager[Reader]]
DEMO = ("demo", "--pace", "60")  # it has six workers
COMMANDS = [
    ("up", "shop:app"),
    ("worker", "shop:app"),
    ("tail", "shop:app"),
    ("ask", "shop:app", "clerk/a", "Ask", "say=wait"),
    ("server", "cli", "BLPOP", "nothing", "0"),
]
REST = [
    (terminal, signal.SIGTERM),
    (terminal, signal.SIGINT),
    (full_pipe, signal.SIGTERM),
    (full_pipe, signal.SIGHUP),
    (closed_pipe, signal.SIGINT),
    (closed_pipe, signal.SIGHUP),
]


@contextlib.contextmanager
def started(
    shop: ShopFolder, commands: Sequence[Sequence[str]], reader: Reader
) -> Iterator[list[subprocess.Popen[bytes]]]:
    processes = [
        subprocess.Popen(
            shop.command(*command),
            cwd=shop.folder,
            env=shop.environ,
            stdin=subprocess.DEVNULL,
            stdout=reader.descriptor,
            stderr=reader.descriptor,
            start_new_session=True,
        )
        for command in commands
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "number", "more"),
    [
        (terminal, signal.SIGHUP, [DEMO]),
        (full_pipe, signal.SIGINT, []),
        (closed_pipe, signal.SIGTERM, []),
        *(pytest.param(*rest, [DEMO], marks=pytest.mark.full) for rest in REST),
    ],
)
def test_a_signal_ends_what_nobody_reads(
    shop: ShopFolder, broken: Broken, number: signal.Signals, more: list[tuple[str, ...]]
) -> None:
    shop.environ["CALLBOARD_DRAIN_GRACE"] = "0.5"
    commands = COMMANDS + more
    with broken() as reader, started(shop, commands, reader) as processes:
        wait_for(lambda: len(workers_in(shop.folder)) == 3 + 6 * len(more))
        shop.out("status", "shop:app")
        reader.fail()
        # Each prints now: the workers what their handlers print, the others what their workers do, and what is published.
        for _ in range(3):
            shop.out("publish", "shop:app", "jobs", "Job", f"name={'long' * 1_000}")
        for process in processes:
            os.killpg(process.pid, number)  # as a terminal does
        for command, process in zip(commands, processes, strict=True):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                pytest.fail(f"{' '.join(command)} goes on after {number.name}")
        wait_for(lambda: processes_in(shop.folder, "callboard") == [])


@pytest.mark.parametrize("closed", ["1", "0 1 2"])
def test_a_command_works_without_its_streams(shop: ShopFolder, closed: str) -> None:
    """As a daemon starts it: the first file or connection must not take the number of a stream."""
    close = "".join(f" {number}>&-" for number in closed.split())
    line = shlex.join(shop.command("publish", "shop:app", "jobs", "Job", "name=it"))
    done = subprocess.run(
        ["/bin/sh", "-c", line + close], cwd=shop.folder, env=shop.environ, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert '"name": "it"' in shop.out("tail", "shop:app", "jobs", "--from-start", "--limit", "1")
