"""What an agent remembers of its conversations, and what it keeps of a message."""

from __future__ import annotations

from typing import Any

from .agent import Agent, Message
from .errors import MessageError
from .histories import Histories, kept_message
from .peer import Peer


class Remembering(Peer):
    """The part of a `ConversableAgent` that remembers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._histories = Histories()

    @property
    def chat_messages(self) -> Histories:
        """The messages of its conversations, by the agent at the other end."""
        return self._histories

    def last_message(self, agent: Agent | None = None) -> Message | None:
        """The last message of a conversation.

        Args:
            agent: With whom; None: the only one it talked to.

        Returns:
            None: there is none.

        Raises:
            MessageError: It talked to several, or never to this one (a ValueError).
        """
        if agent is None:
            if len(self._histories) > 1:
                raise MessageError(self.name, "it has several conversations: say which one.")
            agent = next(iter(self._histories), None)
            return None if agent is None else self._histories[agent][-1]
        if not self._histories[agent]:
            raise MessageError(self.name, f"it has no conversation with {agent.name!r}.")
        return self._histories[agent][-1]

    def chat_messages_for_summary(self, agent: Agent) -> list[Message]:
        """The messages that a summary of the conversation with an agent is made of."""
        return self._histories[agent]

    def clear_history(
        self, recipient: Agent | None = None, nr_messages_to_preserve: int | None = None
    ) -> None:
        """Forget messages; see `Histories.clear`."""
        self._histories.clear(recipient, nr_messages_to_preserve or 0)

    def _keep(self, message: str | Message, role: str, author: Agent, other: Agent) -> Message:
        kept = kept_message(message, role, author.name)
        if kept is None:
            raise MessageError(author.name, "it has neither a content nor a call.")
        self._histories[other].append(kept)
        return kept
