"""A group chat as a team."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from callboard.conditions.base import TerminationCondition
from callboard.teams.group_chat import BaseGroupChat
from callboard.teams.local import Participant
from callboard.teams.selection import SpeakerSelection

from .message import ConversationMessage


class GroupChatTeam(BaseGroupChat):
    """A team whose speakers a group chat chooses; `GroupChatManager.team` makes it.

    Args:
        participants: The members.
        name: Name of the manager.
        description: What it can do.
        new_selection: Makes the strategy of a conversation.
        termination: When a run ends.
        **options: See BaseGroupChat.
    """

    def __init__(
        self,
        participants: Sequence[Participant],
        *,
        name: str,
        description: str,
        new_selection: Callable[[], SpeakerSelection],
        termination: TerminationCondition,
        **options: Any,
    ) -> None:
        super().__init__(
            participants,
            name=name,
            description=description,
            manager_name=name,
            termination_condition=termination,
            custom_message_types=[ConversationMessage, *options.pop("custom_message_types", ())],
            **options,
        )
        self._new_selection = new_selection

    def new_selection(self) -> SpeakerSelection:
        """The strategy of a new conversation."""
        return self._new_selection()
