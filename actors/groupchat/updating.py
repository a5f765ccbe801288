"""What an agent does to itself before it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .agent import Message
from .handoffs.context_text import ContextStr
from .peer import Peer
from .waiting import value_of


@dataclass(frozen=True)
class UpdateSystemMessage:
    """A new system message before each answer.

    Args:
        content_updater: A text with context variables in braces, or a function of the agent and the messages, which may be
            async.
    """

    content_updater: str | Callable[..., Any]

    async def __call__(self, agent: Peer, messages: Sequence[Message]) -> None:
        """Tells the agent's model something else."""
        given = self.content_updater
        if isinstance(given, str):
            agent.system_message = ContextStr(given).format(agent.context_variables)
        else:
            agent.system_message = await value_of(given(agent, messages))


Update: TypeAlias = Callable[..., Any]
"""Called with the agent and the messages before each answer; may be async."""
