"""The run that something belongs to: its id travels with the messages, from handler to handler and process to process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from callboard.errors import SettingValueError

from .execution import Execution, current

MOST_RUN_ID: Final = 128  # characters; every message of the run carries it

# The id, and the handler in which it was set. A worker that was started inside the `with` block has the variable too, and
# what it handles belongs to the runs of its messages.
in_block: ContextVar[tuple[str, Execution | None] | None] = ContextVar("callboard_run", default=None)


@contextmanager
def usage_run(name: str) -> Iterator[None]:
    """Make everything that is sent and used in the `with` block part of the run `name`.

    Messages carry the id of their run, and what their handlers send carries it on. So the agents that an agent asks draw
    from the same budget as it does, in whatever process they live.

    Args:
        name: such as the id of a team's run, up to 128 characters. The same name may be used again, also in other
            processes.

    Raises:
        SettingValueError: it is empty or longer.
    """
    if not 0 < len(name) <= MOST_RUN_ID:
        raise SettingValueError("name", repr(name[:MOST_RUN_ID]), f"1 to {MOST_RUN_ID} characters")
    token = in_block.set((name, current.get()))
    try:
        yield
    finally:
        in_block.reset(token)


def run_id() -> str | None:
    """The id of the run that this code belongs to: of the `with` block around it, else of the message that is handled.

    Returns:
        None when it belongs to no run.
    """
    return run_of(current.get())


def run_of(execution: Execution | None) -> str | None:
    """The id of the run to which what is sent here belongs, where this execution is under way; None: outside handlers."""
    given = in_block.get()
    if given is not None and given[1] is current.get():
        return given[0]
    return None if execution is None else execution.envelope.run
