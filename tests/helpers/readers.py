"""Readers of a command's output that go away, or stop reading."""

from __future__ import annotations

import contextlib
import os
import pty
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Reader(NamedTuple):
    """The output of a command, and how its reader fails.

    Attributes:
        descriptor: What the command writes to.
        fail: From here on nobody reads it.
    """

    descriptor: int
    fail: Callable[[], None]


@contextlib.contextmanager
def terminal() -> Iterator[Reader]:
    """A terminal whose window is closed."""
    ours, theirs = pty.openpty()
    with _closing(ours, theirs) as close:
        yield Reader(theirs, lambda: close(ours))


@contextlib.contextmanager
def closed_pipe() -> Iterator[Reader]:
    """A pipe whose reading end is closed."""
    ours, theirs = os.pipe()
    with _closing(ours, theirs) as close:
        yield Reader(theirs, lambda: close(ours))


@contextlib.contextmanager
def full_pipe() -> Iterator[Reader]:
    """A pipe that is full, and that nobody reads."""
    ours, theirs = os.pipe()

    def fill() -> None:
        # Through a description of its own: were the shared one not to block, the command would get errors instead.
        own = os.open(f"/dev/fd/{theirs}", os.O_WRONLY | os.O_NONBLOCK)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(own, b"." * 512)
        os.close(own)

    with _closing(ours, theirs):
        yield Reader(theirs, fill)


@contextlib.contextmanager
def _closing(*descriptors: int) -> Iterator[Callable[[int], None]]:
    left = set(descriptors)

    def close(descriptor: int) -> None:
        left.discard(descriptor)
        os.close(descriptor)

    try:
        yield close
    finally:
        for descriptor in left:
            os.close(descriptor)
