"""Who can be in a group chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from callboard.agents.chat_agent import ChatAgent

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
