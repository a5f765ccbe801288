"""What was said in a conversation, and who has heard of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, overload

from pydantic import BaseModel, ConfigDict, PlainSerializer

from callboard.agents.task import Said
from callboard.log import Log
from callboard.messages.base import BaseChatMessage
from callboard.messages.unions import AnyMessage


def _without_null(message: Said) -> dict[str, Any]:
    # Nearly every message says that it used no model. An item with a `null` in it is read again before it is written, to see
    # whether its field takes that back: all of it, with every turn.
    data = message.dump()
    if data.get("models_usage", data) is None:
        data = {**data}  # a `dump` of the user's own may keep what it returns
        del data["models_usage"]
    return data


class Entry(BaseModel):
    """A message of the thread.

    Attributes:
        message: The message or event.
        by: Name of the member who said it; "": it came from outside, or from the manager.
        is_said: Whether the other members hear it; else it only happened on the way.
    """

    model_config = ConfigDict(frozen=True)

    message: Annotated[AnyMessage, PlainSerializer(_without_null)]
    by: str = ""
    is_said: bool = False


class Thread(Sequence[Said]):
    """The messages of a thread, as those see it who choose a speaker. It costs nothing, however long the thread is.

    Args:
        entries: Where they are kept.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Log[Entry]) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> Said: ...

    @overload
    def __getitem__(self, index: slice) -> list[Said]: ...

    def __getitem__(self, index: int | slice) -> Said | list[Said]:
        if isinstance(index, slice):
            return [entry.message for entry in self._entries[index]]
        return self._entries[index].message

    def __iter__(self) -> Iterator[Said]:
        return (entry.message for entry in self._entries)


def heard_by(member: str, entries: Sequence[Entry]) -> list[BaseChatMessage]:
    """What a member hears of these: what others say, and what comes from outside."""
    return [
        entry.message
        for entry in entries
        if entry.is_said and entry.by != member and isinstance(entry.message, BaseChatMessage)
    ]
