"""What is said may be large, and what is sent and shown in one piece may not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from callboard.agents.task import Said
from callboard.broker import AgentId
from callboard.broker.errors import PayloadTooLargeError
from callboard.messaging import Messaging
from callboard.send_options import TellOptions

MOST_TEXT: Final = (
    100_000  # characters that are shown together; with their escapes they stay below `max_payload`
)
FRAME: Final = 400  # characters of a message beside its text: id, time and the like


def parts_of(messages: Sequence[Said]) -> Iterator[list[Said]]:
    """Messages in groups that are small enough to be shown; one that is large by itself is alone in its group."""
    part: list[Said] = []
    size = 0
    for message in messages:
        length = FRAME + len(message.to_text())
        if part and size + length > MOST_TEXT:
            yield part
            part, size = [], 0
        part.append(message)
        size += length
    yield part


async def tell_all_of(
    agent: Messaging,
    message: Any,
    recipient: AgentId | str,
    *,
    message_id: str | None = None,
    cancellable: bool = False,
) -> None:
    """Tell something that grows with a conversation; where it is too large for an inbox, it is kept beside it."""
    how: TellOptions = {
        "if_buried": True,
        "cancellable": cancellable,
        "unique": message_id is not None,
    }
    try:
        await agent.tell(message, recipient, message_id=message_id, **how)
    except PayloadTooLargeError:
        how["claim_check"] = True
        await agent.tell(message, recipient, message_id=message_id, **how)
