"""Waiting for the end of children, and ending all of them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

#: Seconds for the kernel to take away what was killed.
GRACE = 5.0


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


def kill_group(pid: int) -> None:
    """Kill a process and its process group, whichever of them there still are."""
    for send, number in ((os.killpg, pid), (os.kill, pid)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            send(number, signal.SIGKILL)


def kill_all() -> None:
    """Kill every descendant: those whose parents are gone have become children of this process."""
    deadline = time.monotonic() + GRACE
    while time.monotonic() < deadline:
        for pid in _children():
            kill_group(pid)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def _children() -> list[int]:
    try:
        own = os.readlink("/proc/self")
        with open(f"/proc/self/task/{own}/children", encoding="ascii") as file:
            text = file.read()
    except OSError:
        return []
    return [int(pid) for pid in text.split()]


def _nothing(*_: object) -> None:
    return
