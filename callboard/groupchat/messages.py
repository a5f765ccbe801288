"""Agents and messages of a group chat, as AG2's dictionaries and as chat messages that cross processes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from callboard.agents.base import BaseChatAgent, ChatAgent
from callboard.broker.codec import message
from callboard.memory.llm_messages import UserMessage
from callboard.messages.chat import BaseChatMessage

from .errors import GroupChatDeclarationError

Agent: TypeAlias = ChatAgent
"""Any chat agent; a `ConversableAgent` has what AG2's has."""

Message: TypeAlias = dict[str, Any]
"""A message as in AG2: "content", "role", "name", and perhaps "tool_calls", "tool_responses" and others."""


def names_of(agents: Sequence[Agent]) -> list[str]:
    """The names of agents."""
    return [agent.name for agent in agents]


def functions_of(agent: Agent) -> dict[str, Any]:
    """The functions that an agent executes, by name; none for an agent that has no `function_map`."""
    return dict(getattr(agent, "function_map", None) or {})


def check_agents(agents: Sequence[object]) -> None:
    """Refuse what is no agent, such as a name.

    Raises:
        GroupChatDeclarationError: Something else is among them (a ValueError).
    """
    for agent in agents:
        if isinstance(agent, BaseChatAgent):
            agent.name  # noqa: B018 - of an agent that was not set up, it says so
        if isinstance(agent, type) or not hasattr(agent, "name"):
            advice = (
                "give GroupChatManager(...) of it" if hasattr(agent, "agents") else "give the agent itself"
            )
            raise GroupChatDeclarationError(f"{agent!r:.80} can't take part in a chat: {advice}.")


IMAGE: Final = "<image>"


def text_of(content: Any) -> str:
    """The content of a message as text: of a list the texts in their order, and a mark for each image.

    Args:
        content: A text, a list of parts as OpenAI has them, or None.
    """
    if content is None:
        return ""
    if isinstance(content, list):
        return "".join(_part(part) for part in content)
    return str(content)


def _part(part: Any) -> str:
    if isinstance(part, dict):
        return str(part.get("text", "")) if part.get("type") == "text" else IMAGE
    return str(part)


CALLS: Final = ("tool_calls", "tool_responses", "function_call")
"""What a message has that is no text alone."""


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

    def said_text(self) -> str | None:
        """The content as text; None for calls of functions and their results."""
        return None if any(self.data.get(key) for key in CALLS) else self.to_text()

    def to_model_text(self) -> str:
        """The content as text."""
        return self.to_text()

    def to_model_message(self) -> UserMessage:
        """The content as text, said by `source`."""
        return UserMessage(content=self.to_text(), source=self.source)


def as_message(said: BaseChatMessage) -> Message:
    """Any chat message as a message of a group chat."""
    if isinstance(said, ConversationMessage):
        return dict(said.data)
    return {"content": said.to_model_text(), "role": "user", "name": said.source}


def with_both_names(message: Message) -> Message:
    """A message with the names of AG2's RFC 001 beside those of group chats: "text" and "sender"."""
    return {"text": text_of(message.get("content")), "sender": message.get("name", ""), **message}


def unsent(source: str) -> str:
    """The beginning of an error: a message can't be sent."""
    return f"A message of {source!r} can't be sent:"


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


KEPT: Final = (
    "content",
    "function_call",
    "tool_calls",
    "vendor",  # what the maker of a model wants back with calls, see model.py
    "tool_responses",
    "tool_call_id",
    "name",
    "context",
    "next_target",
)


class Histories(Mapping[Agent, list[Message]]):
    """A list of messages for each agent that was talked to; an unknown one has an empty list.

    Args:
        owner: Name of the agent whose they are.
    """

    def __init__(self, owner: str = "") -> None:
        self._owner = owner
        self._lists: dict[Agent, list[Message]] = {}

    def __getitem__(self, agent: Agent) -> list[Message]:
        return self._lists.setdefault(agent, [])

    def __iter__(self) -> Iterator[Agent]:
        return iter(self._lists)

    def __len__(self) -> int:
        return len(self._lists)

    def clear(self, agent: Agent | None, keep: int) -> None:
        """Forget messages.

        Args:
            agent: Of the conversation with this one; None: of all.
            keep: How many stay, the last ones.
        """
        for messages in [self[agent]] if agent is not None else list(self._lists.values()):
            del messages[: max(0, len(messages) - keep)]

    def keep(self, message: Any, role: str, author: Agent, other: Agent) -> Message:
        """Add a message to the conversation with an agent; see `kept_message`.

        Raises:
            GroupChatDeclarationError: There is nothing in it (a ValueError).
        """
        kept = kept_message(message, role, author.name)
        if kept is None:
            raise GroupChatDeclarationError(f"{unsent(author.name)} it has neither a content nor a call.")
        self[other].append(kept)
        return kept

    def last(self, agent: Agent | None = None) -> Message | None:
        """The last message of a conversation.

        Args:
            agent: At the other end; None: the only one that was talked to.

        Returns:
            None: there is none.

        Raises:
            GroupChatDeclarationError: There are several conversations, or none with this agent (a ValueError).
        """
        if agent is None:
            if len(self) > 1:
                raise GroupChatDeclarationError(f"{self._owner!r} has several conversations: say which one.")
            agent = next(iter(self), None)
            return None if agent is None else self[agent][-1]
        if not self[agent]:
            raise GroupChatDeclarationError(f"{self._owner!r} has no conversation with {agent.name!r}.")
        return self[agent][-1]


def kept_message(message: Any, role: str, author: str) -> Message | None:
    """A message as an agent keeps it.

    Args:
        message: A text, or a message.
        role: "assistant" for what the agent itself said, else "user"; some messages bring their own.
        author: Who said it, for a message without a name.

    Returns:
        None: there is nothing in it.
    """
    given = {"content": message} if isinstance(message, str) else dict(message)
    kept = {key: given[key] for key in KEPT if given.get(key) is not None}
    calls = kept.get("function_call") or kept.get("tool_calls")
    if "content" not in kept:
        if not calls:
            return None
        kept["content"] = None
    if given.get("role") in ("function", "tool"):
        kept["role"] = given["role"]
    else:
        kept["role"] = given.get("override_role", role)
    if calls:
        kept["role"] = "assistant"
    kept.setdefault("name", author)
    return kept
