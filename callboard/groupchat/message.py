"""Messages of group chats as chat messages, so that they cross processes."""

from __future__ import annotations

from typing import Any, Literal

from callboard.broker.encoding.registry import message
from callboard.memory.llm_messages import UserMessage
from callboard.messages.base import BaseChatMessage

from .agent import Message
from .content import text_of


@message(name="callboard.ConversationMessage")
class ConversationMessage(BaseChatMessage):
    """A message as group chats have them.

    Attributes:
        data: "content", "role", "name" and others, as plain data.
    """

    data: dict[str, Any]
    type: Literal["ConversationMessage"] = "ConversationMessage"

    def to_text(self) -> str:
        """The content as text."""
        return text_of(self.data.get("content"))

    def to_model_text(self) -> str:
        """The content as text."""
        return self.to_text()

    def to_model_message(self) -> UserMessage:
        """The content as text, said by `source`."""
        return UserMessage(content=self.to_text(), source=self.source)


def as_message(said: BaseChatMessage) -> Message:
    """What anybody said as a message of a group chat."""
    if isinstance(said, ConversationMessage):
        return dict(said.data)
    return {"content": said.to_model_text(), "role": "user", "name": said.source}


def with_both_names(message: Message) -> Message:
    """A message with the names of AG2's RFC 001 beside those of group chats: "text" and "sender"."""
    return {"text": text_of(message.get("content")), "sender": message.get("name", ""), **message}
