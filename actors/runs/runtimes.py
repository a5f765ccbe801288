"""Runtimes of programs that are not async: they live in the thread of the runs."""

from __future__ import annotations

from typing import Final
from weakref import WeakSet

from callboard.runtime.errors import RuntimeStateError
from callboard.runtime.runtime import RedisAgentRuntime

from .errors import LoopError
from .loop_thread import LoopThread

ELSEWHERE: Final = (
    "the runtime is open in another event loop; use `await a_run(...)` there, "
    "or give run() one that is not open yet"
)

_taken: WeakSet[RedisAgentRuntime] = WeakSet()


def take_in(runtime: RedisAgentRuntime, thread: LoopThread) -> None:
    """Open and start a runtime in the thread, which closes it at its end.

    Raises:
        LoopError: It is open somewhere else (a RuntimeError).
    """
    if runtime in _taken:
        return
    if _is_open(runtime):
        raise LoopError("run()", ELSEWHERE)
    thread.call(_start(runtime), "run()")
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
