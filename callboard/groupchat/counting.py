"""How often an agent answers without a person."""

from __future__ import annotations

from typing import Any, Final

from .agent import Agent
from .peer import Peer

MOST_REPLIES: Final = 100


class Counting(Peer):
    """The part of a `ConversableAgent` that counts its automatic answers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._most_replies = MOST_REPLIES
        self._most_replies_to: dict[Agent | None, int] = {}
        self._replies_to: dict[Agent | None, int] = {}

    def max_consecutive_auto_reply(self, sender: Agent | None = None) -> int:
        """How often it answers somebody without a person."""
        return self._most_replies_to.get(sender, self._most_replies)

    def update_max_consecutive_auto_reply(self, value: int, sender: Agent | None = None) -> None:
        """Change that number, for everybody or for one."""
        if sender is None:
            self._most_replies = value
            self._most_replies_to.clear()
        else:
            self._most_replies_to[sender] = value

    def auto_replies(self, sender: Agent | None) -> int:
        """How often it has answered somebody without a person."""
        return self._replies_to.get(sender, 0)

    def count_auto_reply(self, sender: Agent | None) -> None:
        """It answers somebody once more."""
        self._replies_to[sender] = self.auto_replies(sender) + 1

    def reset_consecutive_auto_reply_counter(self, sender: Agent | None = None) -> None:
        """Begin to count again; None: for everybody."""
        if sender is None:
            self._replies_to.clear()
        else:
            self._replies_to.pop(sender, None)

    def set_auto_replies(self, sender: Agent | None, count: int) -> None:
        """It has answered somebody so often without a person."""
        self._replies_to[sender] = count
