"""What a team remembers of one conversation."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from callboard.log import Log
from callboard.memory.llm_messages import LLMMessage

from .thread import Entry


def is_nothing(value: object) -> bool:
    """Whether a field is None, and so is left out of what is stored.

    A state that says `null` somewhere is read again before each commit, to see whether the field takes that back: with every
    turn, and all of it.
    """
    return value is None


class Speaking(BaseModel):
    """A member who was asked to speak and has not spoken.

    Attributes:
        turn: Number of the turn.
        heard: How much of the thread that member has heard with it.
    """

    model_config = ConfigDict(frozen=True)

    turn: int
    heard: int


class ConversationState(BaseModel):
    """What the turn loop of a team remembers of a conversation.

    Attributes:
        turns: How many rounds there were since the run began, or since the last one that was stopped.
        last_turn: The highest number that a turn has had; it never goes back.
        speaking: Who was asked and has not spoken, by name.
        heard: How much of the thread each member has heard.
        round_start: Where in the thread the round under way begins.
        selection: What the strategy remembers.
        termination: What the termination condition remembers; None: nothing yet.
        thread: All that was said and happened.
        context: Model context of the strategy, for one that has one.
    """

    turns: int = 0
    last_turn: int = 0
    speaking: dict[str, Speaking] = Field(default_factory=dict)
    heard: dict[str, int] = Field(default_factory=dict)
    round_start: int = 0
    selection: dict[str, Any] = Field(default_factory=dict)
    termination: dict[str, Any] | None = Field(default=None, exclude_if=is_nothing)
    thread: Log[Entry] = Log()
    context: Log[LLMMessage] = Log()
