"""Waiting for the end of children, and ending all of them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

from .processes import descendants

#: Seconds for the kernel to take away what was killed.
GRACE = 8.0


def end_of_children() -> int:
    """A descriptor that can be read when a child has ended, from now on."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(os, "pipe2") else os.pipe()
    os.set_blocking(writer, False)
    os.set_blocking(reader, False)
    signal.signal(signal.SIGCHLD, _nothing)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def wait_for(descriptors: list[int], seconds: float) -> list[int]:
    """Those of the descriptors that can be read, after at most this time."""
    return select.select(descriptors, [], [], max(0.0, seconds))[0]


def drain(descriptor: int) -> None:
    """Read what is there and forget it."""
    with contextlib.suppress(BlockingIOError):
        while os.read(descriptor, 4096):
            pass


def exit_code(status: int) -> int:
    """The exit code of a child, as a shell gives it: 128 + N after signal N."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def kill_group(group: int) -> None:
    """Kill a process group, all at once: no member gets to start another process meanwhile."""
    if group != os.getpgrp():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


def kill_all() -> None:
    """Kill every descendant: the children of those that are killed become children of this process."""
    deadline = time.monotonic() + GRACE
    while time.monotonic() < deadline:
        # Group by group, or what starts processes faster than they are killed one by one outlives this
        for group in {process.group for process in descendants()}:
            kill_group(group)
        if not _reap():
            return
        time.sleep(0.002)


def _reap() -> bool:
    """Take away who has ended; say whether there are other children."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _nothing(*_: object) -> None:
    return
