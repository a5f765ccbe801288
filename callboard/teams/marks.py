"""Where the logs of a conversation were when a turn had ended, so that it can be forked there."""

from __future__ import annotations

from operator import not_
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from .state import Speaking, is_nothing

MOST_KEPT: Final = 200  # different values that an agent had saved beside its context, the newest
MOST_SAVED: Final = 16_000  # characters of one that is kept


class TurnMark(BaseModel):
    """A conversation as its manager knew it when a turn, or the turns of several who spoke at once, had ended.

    There is one for each turn, so what is 0 or empty is not written.

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
    by: tuple[str, ...] = Field(default=(), exclude_if=not_)
    run_id: str = Field(default="", exclude_if=not_)
    asked: int = Field(default=0, exclude_if=not_)
    thread: int = 0
    context: int = Field(default=0, exclude_if=not_)
    turns: int = Field(default=0, exclude_if=not_)
    heard: dict[str, int] = Field(default_factory=dict)
    round_start: int = 0
    selection: dict[str, Any] = Field(default_factory=dict, exclude_if=not_)
    termination: dict[str, Any] | None = Field(default=None, exclude_if=is_nothing)
    called_off: dict[str, list[Speaking]] = Field(default_factory=dict, exclude_if=not_)


class MemberMark(BaseModel):
    """A member when it had taken a turn.

    Attributes:
        turn: Number of the turn; of what was loaded 0; of what is left when it has forgotten everything, the next turn.
        context: How many messages its model context had.
        kept: What it remembered beside that, as the number of a `Kept`; 0: see the next two.
        saved: The same, as older versions have written it.
        is_whole: False: that was too large to be kept for every turn. With a number it is False as well: older versions,
            which do not know it, refuse to fork there then.
        is_taken: Whether it was this member's turn.
    """

    model_config = ConfigDict(frozen=True)

    turn: int
    context: int
    kept: int = Field(default=0, exclude_if=not_)
    saved: dict[str, Any] | None = Field(default=None, exclude_if=is_nothing)
    is_whole: bool = True
    is_taken: bool = Field(default=True, exclude_if=bool)


class Kept(BaseModel):
    """What a member remembered beside its context, for as many turns as it stayed the same.

    Attributes:
        number: Rises with each.
        saved: It.
    """

    model_config = ConfigDict(frozen=True)

    number: int
    saved: dict[str, Any]
