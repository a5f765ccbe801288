"""What models and tools answered in a run that is recorded: a stream beside the run's own, written by the same commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from callboard.runtime.errors import EventTooLargeError
from callboard.runtime.taping import Tape

if TYPE_CHECKING:
    from callboard.protocol import AgentRuntime

TAKES: Final = "/takes"


def takes_of(stream: str) -> str:
    """The name of that stream.

    Args:
        stream: That of the run.
    """
    return f"{stream}{TAKES}"


def is_of_takes(stream: str) -> bool:
    """Whether a stream is such a one: those of runs end otherwise, see `path_of`."""
    return stream.endswith(TAKES)


def tape_for(record: bool) -> Tape | None:
    """A tape for one handler, if the run is recorded."""
    return Tape() if record else None


async def write_takes(runtime: AgentRuntime, stream: str, tape: Tape | None) -> None:
    """Hand what was noted to the commit. What is too large for one event leaves a gap, which an export tells of."""
    for take in () if tape is None else tape.takes:
        try:
            await runtime.write_run(takes_of(stream), [take])
        except EventTooLargeError:
            await runtime.write_run(takes_of(stream), [take.model_copy(update={"answer": None})])
