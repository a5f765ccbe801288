"""Chats of their own as targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from callboard.groupchat.agent import Agent, Message
from callboard.groupchat.errors import HandoffError

from .target import SpeakerSelectionResult, TransitionTarget, Whereabouts, not_by_itself


@dataclass(frozen=True)
class _ChatTarget(TransitionTarget):
    def resolve(self, at: Whereabouts) -> SpeakerSelectionResult:
        """A helper agent takes its place before.

        Raises:
            HandoffError: It was given elsewhere (a ValueError).
        """
        raise not_by_itself(self)

    def needs_agent_wrapper(self) -> bool:
        """A helper agent lets it chat, and returns to the one who handed over."""
        return True

    def dump(self) -> NoReturn:
        """Not possible.

        Raises:
            HandoffError: Always (a ValueError).
        """
        raise not_by_itself(self)


@dataclass(frozen=True)
class NestedChatTarget(_ChatTarget):
    """Chats one after the other; the summary of the last one is said in the group.

    Each takes place between copies of its agents, so that chats side by side never mix; nobody remembers it afterwards.

    Args:
        nested_chat_config: "chat_queue" with the chats. Each has "recipient", and may have "sender" (else the helper),
            "message" (a text, or a function of recipient, messages, sender and config; for the first one else what was
            said last in the group; one without a message does not take place), "max_turns", "summary_method",
            "summary_args" and "carryover" (texts that the message ends with; the summaries of the chats before follow).
            "config" is passed to functions.

    Raises:
        HandoffError: There is no such queue, or a chat has no agent as its recipient (a TypeError and a ValueError).
    """

    kind: ClassVar[str] = "nested_chat"

    nested_chat_config: dict[str, Any]

    def __post_init__(self) -> None:
        config: Any = self.nested_chat_config
        queue = config.get("chat_queue") if isinstance(config, Mapping) else None
        if not isinstance(queue, list | tuple) or not all(isinstance(chat, Mapping) for chat in queue):
            raise HandoffError("NestedChatTarget needs its chats: {'chat_queue': [{'recipient': agent}]}.")
        for number, chat in enumerate(queue, 1):
            people = [chat.get("recipient"), *([] if chat.get("sender") is None else [chat["sender"]])]
            if not all(isinstance(one, Agent) for one in people):
                raise HandoffError(
                    f"Chat {number} of a NestedChatTarget needs agents: {{'recipient': agent}}."
                )

    def display_name(self) -> str:
        """For people."""
        return "a nested chat"

    def normalized_name(self) -> str:
        """A part of the name of the tool."""
        return "nested_chat"

    def __str__(self) -> str:
        return "Transfer to nested chat"


@dataclass(frozen=True)
class GroupChatConfig:
    """A group chat in a group chat.

    Args:
        pattern: Its pattern.
        messages: How it begins.
        max_rounds: How many messages it has at most.

    Raises:
        HandoffError: The pattern is none, or there is no message (a TypeError and a ValueError).
    """

    pattern: Any  # a Pattern, which builds on targets
    messages: list[Message] | str
    max_rounds: int = 20

    def __post_init__(self) -> None:
        if not hasattr(self.pattern, "for_conversation") or isinstance(self.pattern, Agent):
            raise HandoffError(f"A GroupChatConfig needs a pattern, and no {type(self.pattern).__name__}.")
        if not isinstance(self.messages, str) and not self.messages:
            raise HandoffError("A group chat begins with a message: there is none.")


@dataclass(frozen=True)
class GroupChatTarget(_ChatTarget):
    """A group chat of its own; its summary is said in the group.

    Args:
        group_chat_config: The group chat. Its agents are copied for it.
    """

    kind: ClassVar[str] = "group_chat"

    group_chat_config: GroupChatConfig

    def display_name(self) -> str:
        """For people."""
        return "a group chat"

    def normalized_name(self) -> str:
        """A part of the name of the tool."""
        return "group_chat"

    def __str__(self) -> str:
        return "Transfer to group chat"
