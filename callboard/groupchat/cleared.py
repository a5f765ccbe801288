"""Clearing histories where nobody has them all: a message tells those who hear it what it clears."""

from __future__ import annotations

import json
from typing import Any, Final

from callboard.messages.base import BaseChatMessage

from .agent import Message
from .content import text_of
from .errors import ClearHistoryError
from .events import ClearAgentsHistoryEvent, HistoryNotClearedEvent
from .history_commands import ClearHistory, read_clear_history
from .stream import IOStream

KEPT_WITH_RESPONSES: Final = 1  # the message with the calls, which has to stand before their results
CLEARS: Final = "clear_history"  # in the metadata of a message


def read_order(reply: Message, names: list[str]) -> ClearHistory | None:
    """What a message clears, as its words and its results say; an event says so, or why it clears nothing.

    Args:
        reply: The message.
        names: Of the agents.

    Returns:
        None: nothing, and nothing is cut out of its text.
    """
    try:
        command = read_clear_history(text_of(reply.get("content")), names)
    except ClearHistoryError as error:
        IOStream.get_default().send(HistoryNotClearedEvent(str(error)))
        return None
    if command is None:
        return None
    keep = command.keep or (KEPT_WITH_RESPONSES if "tool_responses" in reply else 0)
    IOStream.get_default().send(ClearAgentsHistoryEvent(command.agent, keep or None))
    return ClearHistory(command.agent, keep, command.has_number, command.text)


def as_metadata(order: ClearHistory | None) -> dict[str, str]:
    """What is added to a message that clears."""
    return {} if order is None else {CLEARS: json.dumps({"agent": order.agent, "keep": order.keep})}


def kept_after(said: BaseChatMessage, name: str | None) -> int | None:
    """How many messages stay with somebody who hears this one, the last ones before it.

    Args:
        said: The message.
        name: Who hears it; None: the group.

    Returns:
        None: all of them.
    """
    order: Any = said.metadata.get(CLEARS)
    if order is None:
        return None
    order = json.loads(order)
    return int(order["keep"]) if order["agent"] in (None, name) else None


def forget(messages: list[Message], keep: int) -> None:
    """Leave as many messages, the last ones."""
    del messages[: max(0, len(messages) - keep)]
