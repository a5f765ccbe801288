"""The manager of a pattern's chat."""

from __future__ import annotations

from typing import cast

from callboard.groupchat.manager import GroupChatManager
from callboard.teams.selection import SpeakerSelection

from .chat import PatternChat
from .selection import PatternSelection


class PatternManager(GroupChatManager):
    """A GroupChatManager whose chat is that of a pattern; a pattern makes it."""

    def new_selection(self) -> SpeakerSelection:
        """How speakers are chosen in a conversation of `team`."""
        return PatternSelection(cast("PatternChat", self.groupchat).for_conversation(), self)
