"""What a sender hears when a message of its own becomes a dead letter."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from .encoding.registry import message


@message(name="callboard.buried")
class Buried(BaseModel):
    """A message became a dead letter.

    Attributes:
        message_id: Its id.
        recipient: Agent that it was for, as type/key.
        type: Its wire name.
        reason: Why it was buried.
        error: What was raised, as text; "" when nothing was.
    """

    model_config = ConfigDict(frozen=True)

    message_id: str
    recipient: str
    type: str
    reason: str
    error: str
