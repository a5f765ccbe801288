"""Tells the members of a team of each other."""

from __future__ import annotations

from collections.abc import Sequence

from callboard.agents.base import BaseChatAgent

from .local import Participant


def introduce(participants: Sequence[Participant]) -> None:
    """Tell every agent the names of all members.

    Raises:
        ValueError: One of them can't work with these.
    """
    names = [participant.name for participant in participants]
    for participant in participants:
        if isinstance(participant, BaseChatAgent):
            participant.on_joined(names)
