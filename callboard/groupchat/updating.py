"""What an agent does to itself before it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .agent import Message
from .errors import GroupChatDeclarationError
from .handoffs.context_text import ContextStr
from .peer import Peer
from .waiting import value_of


@dataclass(frozen=True)
class UpdateSystemMessage:
    """A new system message before each answer.

    Args:
        content_updater: A text with context variables in braces, or a function of the agent and the messages, which may be
            async.

    Raises:
        GroupChatDeclarationError: It is neither (a ValueError).
    """

    content_updater: str | Callable[..., Any]

    def __post_init__(self) -> None:
        if not isinstance(self.content_updater, str) and not callable(self.content_updater):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GroupChatDeclarationError("UpdateSystemMessage is made of a text, or of a function.")

    async def __call__(self, agent: Peer, messages: Sequence[Message]) -> None:
        """Tells the agent's model something else.

        Raises:
            GroupChatDeclarationError: The function returned no text (a ValueError).
        """
        given = self.content_updater
        if isinstance(given, str):
            agent.system_message = ContextStr(given).format(agent.context_variables)
        else:
            text = await value_of(given(agent, messages))
            if not isinstance(text, str):
                raise GroupChatDeclarationError(
                    f"The function of an UpdateSystemMessage returns a text, and no {type(text).__name__}."
                )
            agent.system_message = text


Update: TypeAlias = Callable[..., Any]
"""Called with the agent and the messages before each answer; may be async."""
