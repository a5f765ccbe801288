"""The run that something belongs to: its id travels with the messages, from handler to handler and process to process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from callboard.context import ContextScope
from callboard.errors import SettingValueError

from .execution import Execution, current
from .run_paths import PART, RUN, id_in

MOST_RUN_ID: Final = 128  # characters; every message of the run carries it

# The id, and the handler in which it was set. A worker that was started inside the `with` block has the variable too, and
# what it handles belongs to the runs of its messages.
in_block: ContextVar[tuple[str, Execution | None] | None] = ContextVar("callboard_run", default=None)


# Who speaks where that is no agent of the bus, such as a member of a team in this process; and in which handler.
speaking: ContextVar[tuple[str, Execution | None] | None] = ContextVar("callboard_speaker", default=None)


@contextmanager
def usage_run(name: str) -> Iterator[None]:
    """Make everything that is sent and used in the `with` block part of the run `name`.

    Messages carry the id of their run, and what their handlers send carries it on. So the agents that an agent asks draw
    from the same budget as it does, in whatever process they live.

    Args:
        name: such as the id of a team's run, up to 128 characters. The same name may be used again, also in other
            processes.

    Raises:
        SettingValueError: it is empty or longer, or has control characters that stand between the names of runs.
    """
    if not 0 < len(name) <= MOST_RUN_ID:
        raise SettingValueError("name", repr(name[:MOST_RUN_ID]), f"1 to {MOST_RUN_ID} characters")
    if RUN in name or PART in name:
        raise SettingValueError("name", repr(name), "without control characters")
    with in_run_path(name):
        yield


def in_run_path(path: str) -> ContextScope[tuple[str, Execution | None] | None]:
    """The same for a path of runs inside each other, see run_paths.py."""
    return ContextScope(in_block, (path, current.get()))


def run_id() -> str | None:
    """The id of the run that this code belongs to: of the `with` block around it, else of the message that is handled.

    Returns:
        None when it belongs to no run.
    """
    path = run_path()
    return None if path is None else id_in(path)


def run_path() -> str | None:
    """The same with the runs around it, see run_paths.py."""
    return run_of(current.get())


def run_of(execution: Execution | None) -> str | None:
    """The path of the run to which what is sent here belongs, where this execution is under way; None: outside handlers."""
    given = in_block.get()
    if given is not None and given[1] is current.get():
        return given[0]
    return None if execution is None else execution.envelope.run


@contextmanager
def speaking_as(name: str) -> Iterator[None]:
    """Name who uses what is used in the `with` block, for the usage of a run; else it is the type of the handler's agent."""
    token = speaking.set((name, current.get()))
    try:
        yield
    finally:
        speaking.reset(token)


def speaker() -> str:
    """Who speaks here; "": nobody that is known."""
    execution, given = current.get(), speaking.get()
    if given is not None and given[1] is execution:
        return given[0]
    return "" if execution is None else execution.agent_id.type
