"""Where the logs of a conversation were when a turn had ended, so that it can be forked there."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from .state import Speaking, is_nothing

KEPT: Final = 200  # marks of an agent, the newest
MOST_SAVED: Final = 16_000  # characters of what an agent saves beside its context that a mark holds


class TurnMark(BaseModel):
    """A conversation as its manager knew it when a turn, or the turns of several who spoke at once, had ended.

    Attributes:
        turn: Number of that turn, the highest of several; what was loaded or forked has a mark as well.
        by: Who spoke.
        run_id: The run that it belongs to.
        asked: The turn of a larger team that it belongs to; 0: none.
        thread: How many entries the thread had.
        context: How many messages the strategy's model context had.
        turns, heard, round_start, selection, termination, called_off: As in the manager's state.
    """

    model_config = ConfigDict(frozen=True)

    turn: int
    by: tuple[str, ...] = ()
    run_id: str = ""
    asked: int = 0
    thread: int = 0
    context: int = 0
    turns: int = 0
    heard: dict[str, int] = Field(default_factory=dict)
    round_start: int = 0
    selection: dict[str, Any] = Field(default_factory=dict)
    termination: dict[str, Any] | None = Field(default=None, exclude_if=is_nothing)
    called_off: dict[str, list[Speaking]] = Field(default_factory=dict)


class MemberMark(BaseModel):
    """A member when it had taken a turn.

    Attributes:
        turn: Number of the turn; 0: what it had when the conversation was loaded.
        context: How many messages its model context had.
        saved: What it remembered beside that.
        is_whole: False: that was too large to be kept for every turn.
    """

    model_config = ConfigDict(frozen=True)

    turn: int
    context: int
    saved: dict[str, Any] | None = Field(default=None, exclude_if=is_nothing)
    is_whole: bool = True
