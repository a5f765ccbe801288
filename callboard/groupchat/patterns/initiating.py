"""Group chats of patterns begin."""

from __future__ import annotations

from collections.abc import Sequence

from callboard.groupchat.agent import Agent, Message
from callboard.groupchat.context_variables import ContextVariables
from callboard.groupchat.errors import HandoffError
from callboard.groupchat.result import ChatResult
from callboard.groupchat.waiting import wait_for

from .pattern import MAX_ROUNDS, Pattern


async def a_initiate_group_chat(
    pattern: Pattern,
    messages: Sequence[Message] | str,
    max_rounds: int = MAX_ROUNDS,
    *,
    silent: bool | None = False,
) -> tuple[ChatResult, ContextVariables, Agent | None]:
    """Let the agents of a pattern chat, in this process.

    Args:
        pattern: Who takes part, and how they hand over.
        messages: A text, which the user says; or messages, of which the last one is said, and the ones before it were.
        max_rounds: How many messages there are at most, the first one included.
        silent: Whether nothing is shown.

    Returns:
        What came of it, the context variables, and who spoke last.

    Raises:
        HandoffError: The pattern can't be, an agent is in a group chat that is under way, or the first message is of
            somebody who is not in the group (a ValueError).
    """
    if not isinstance(pattern, Pattern):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise HandoffError(
            f"A {type(pattern).__name__} is no pattern: write DefaultPattern(initial_agent, agents), or another one."
        )
    return await pattern.chat(messages, max_rounds, silent=silent)


def initiate_group_chat(
    pattern: Pattern,
    messages: Sequence[Message] | str,
    max_rounds: int = MAX_ROUNDS,
    *,
    silent: bool | None = False,
) -> tuple[ChatResult, ContextVariables, Agent | None]:
    """Let the agents of a pattern chat; see `a_initiate_group_chat`."""
    return wait_for(a_initiate_group_chat(pattern, messages, max_rounds, silent=silent))
