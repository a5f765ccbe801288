"""What is told to some members alone: on the bus everybody hears what the manager says, and knows whom it is for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from callboard.messages.base import BaseChatMessage

from .agent import Message

FOR: Final = "for_members"  # in the metadata of a message


@dataclass(frozen=True)
class Note:
    """Something for one member.

    Attributes:
        to: Its name.
        message: What it is told.
    """

    to: str
    message: Message


def for_members(names: Sequence[str]) -> dict[str, str]:
    """Metadata of a message that is for some members alone; for none it only says what has changed."""
    return {FOR: json.dumps(list(names))}


def is_note(said: BaseChatMessage) -> bool:
    """Whether a message is for some members alone, and no part of the conversation."""
    return FOR in said.metadata


def is_for(name: str, said: BaseChatMessage) -> bool:
    """Whether a member is to hear a message."""
    return not is_note(said) or name in json.loads(said.metadata[FOR])
