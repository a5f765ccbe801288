"""Who can be in a group chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from callboard.agents.chat_agent import ChatAgent

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
        if isinstance(agent, type) or not hasattr(agent, "name"):
            raise GroupChatDeclarationError(f"{agent!r} can't take part in a chat: give the agent itself.")
