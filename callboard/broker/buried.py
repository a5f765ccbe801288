"""What the sender of a message gets when it is buried, where it asked for that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .encoding.registry import message

WIRE_NAME: Final = "callboard.buried"  # deadletters.lua writes it


@message(name=WIRE_NAME)
@dataclass(frozen=True, slots=True)
class Buried:
    """A message that was sent with ``tell(..., if_buried=True)`` became a dead letter; an `@event` of its sender gets this.

    It comes from the agent that could not handle the message, in one step with the dead letter. A letter that is replayed
    and buried again is told again.

    Attributes:
        message_id: Of the message.
        recipient: The agent that it was for, as ``type/key``.
        type: Wire name of the message's class.
        reason: Of the dead letter, such as ``"crashed"``.
        error: Text of the error, "" when there was none.
    """

    message_id: str
    recipient: str
    type: str
    reason: str
    error: str = ""
