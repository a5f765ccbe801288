"""Marks the turns of a conversation as they end."""

from __future__ import annotations

from collections.abc import Sequence

from .loop import TurnLoop
from .manager_state import CurrentRun, ManagerState
from .marks import TurnMark


async def mark_turn(
    state: ManagerState, loop: TurnLoop, run: CurrentRun | None, most: int, speakers: Sequence[str] = ()
) -> None:
    """Add the mark of a turn that has ended, or of what was loaded.

    Args:
        state: What the manager remembers.
        loop: Its turn loop.
        run: The run that it belongs to; None: none.
        most: How many marks are kept, the newest.
        speakers: Who spoke.
    """
    asked = run.parent.turn if run is not None and run.parent is not None else 0
    if state.context.dropped or run is None:
        state.marks.clear()  # the logs have lost what the marks before were about
        state.lost = max(0, asked - 1)
    termination = None if loop.termination is None else dict(await loop.termination.save_state())
    state.marks.append(
        TurnMark(
            turn=state.last_turn,
            by=tuple(speakers),
            run_id="" if run is None else run.run_id,
            asked=asked,
            thread=len(state.thread),
            context=len(state.context),
            turns=state.turns,
            heard=dict(state.heard),
            round_start=state.round_start,
            selection=dict(await loop.selection.save_state()),
            termination=termination,
            called_off={name: list(turns) for name, turns in state.called_off.items() if turns},
        )
    )
    if len(state.marks) > most:
        state.marks.trim(keep=most)
        state.lost = max(0, state.marks[0].asked - 1)
