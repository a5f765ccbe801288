"""Runtimes of programs that are not async: they live in the thread of the runs."""

from __future__ import annotations

from typing import Final
from weakref import WeakSet

from callboard.runtime.errors import RuntimeStateError
from callboard.runtime.runtime import RedisAgentRuntime

from .errors import LoopError
from .loop_thread import LoopThread

ELSEWHERE: Final = (
    "the runtime is open in another event loop; use `await a_{name}(...)` there, "
    "or give {name}() one that is not open yet"
)

_taken: WeakSet[RedisAgentRuntime] = WeakSet()


def take_in(runtime: RedisAgentRuntime, thread: LoopThread, name: str) -> None:
    """Open and start a runtime in the thread, which closes it at its end.

    Args:
        runtime: The runtime.
        thread: The thread of the runs.
        name: The function that needs it, for an error.

    Raises:
        LoopError: It is open somewhere else (a RuntimeError).
    """
    if runtime in _taken:
        return
    if _is_open(runtime):
        raise LoopError(f"{name}()", ELSEWHERE.format(name=name))
    thread.call(_start(runtime), f"{name}()")
    thread.at_end(runtime.close)
    _taken.add(runtime)


def _is_open(runtime: RedisAgentRuntime) -> bool:
    try:
        return bool(runtime.transport)
    except RuntimeStateError:
        return False


async def _start(runtime: RedisAgentRuntime) -> None:
    await runtime.open()
    runtime.start()
