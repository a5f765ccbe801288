"""The garbage collector of a process: seldom while modules load, never for what is loaded when work begins."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

FORK_SERVER: Final = "fork-server"
"""The command of the process that makes workers by forks; nobody types it."""

YOUNGEST: Final = 5_000
"""Objects that are made, and not freed, between two looks at the youngest of them; Python's own number is 700.

A turn brings hundreds of messages, each some ten objects that are freed when it is handled: with 700 the collector looks at
them again and again while they are still in use, and finds nothing. That is a twelfth of the time for a message. What is in
cycles waits so much longer: some 5,000 objects, a megabyte or two.
"""

LOADING: Final = 50_000
"""The same for a process that begins: it loads modules, and next to nothing of what that makes is ever freed."""


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Looks for garbage seldom until the end of the block: else that is a fortieth of a worker's start."""
    before = gc.get_threshold()
    gc.set_threshold(LOADING, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextlib.contextmanager
def frozen() -> Iterator[None]:
    """Leaves what is there now out of garbage collection, until the end of the block; what comes later is collected, seldom.

    It is modules and classes for the most part, and stays as long as the process. A worker that makes an agent for every
    key has them looked at again and again: without, it takes a fifth less time for a message. Only for a process that
    does nothing else: what of it is garbage in cycles, or becomes that, is kept. To look for such garbage first took 14 ms
    of the time to a first message, and found 29 of 45,000 objects.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(YOUNGEST, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
