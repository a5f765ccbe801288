"""What an agent remembers of its conversations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from .agent import Agent, Message

KEPT: Final = (
    "content",
    "function_call",
    "tool_calls",
    "tool_responses",
    "tool_call_id",
    "name",
    "context",
    "next_target",
)


class Histories(Mapping[Agent, list[Message]]):
    """A list of messages for each agent that was talked to; an unknown one has an empty list."""

    def __init__(self) -> None:
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
