"""Reply functions, and who they are for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from callboard.agents.chat_agent import ChatAgent

from .agent import Agent
from .errors import GroupChatDeclarationError


@dataclass(frozen=True)
class ReplyRule:
    """A function that may answer for an agent.

    Attributes:
        trigger: Whose messages it answers, see `check_trigger`.
        function: Called with the agent and ``messages=``, ``sender=``, ``config=``; may be async. It returns whether its
            answer counts, and the answer.
        config: Passed to the function.
    """

    trigger: Any
    function: Callable[..., Any]
    config: Any = None

    def __deepcopy__(self, memo: dict[int, Any]) -> ReplyRule:
        """For another conversation: it is shared, as the agents that it names are."""
        return self


def check_trigger(trigger: Any) -> None:
    """Refuse what is no trigger.

    A trigger is an agent, a class of agents, a name, a function of the sender, a list of these, or None: no sender.

    Raises:
        GroupChatDeclarationError: It is none of these (a ValueError).
    """
    if trigger is None or isinstance(trigger, str | type | ChatAgent) or callable(trigger):
        return
    if not isinstance(trigger, list | tuple):
        raise GroupChatDeclarationError(
            "A trigger is an agent, a class, a name, a function, or a list of these."
        )
    for one in trigger:
        check_trigger(one)


def is_triggered(trigger: Any, sender: Agent | None) -> bool:
    """Whether a trigger fits a sender."""
    if isinstance(trigger, list | tuple):
        return any(is_triggered(one, sender) for one in trigger)
    if trigger is None or sender is None:
        return trigger is sender
    if isinstance(trigger, str):
        return trigger == sender.name
    if isinstance(trigger, type):
        return isinstance(sender, trigger)
    return trigger is sender if isinstance(trigger, ChatAgent) else bool(trigger(sender))
