"""A person chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from callboard.groupchat.context_variables import ContextVariables
from callboard.groupchat.conversable import ConversableAgent
from callboard.groupchat.handoffs.other_targets import AskUserTarget
from callboard.groupchat.handoffs.target import TransitionTarget

from .pattern import Pattern


class ManualPattern(Pattern):
    """A person chooses who is next, each time.

    It takes the place of what agents do after work; other handoffs go before it. On the bus the person answers from
    anywhere. For the arguments see Pattern.
    """

    def __init__(
        self,
        initial_agent: ConversableAgent,
        agents: Sequence[ConversableAgent],
        user_agent: ConversableAgent | None = None,
        group_manager_args: Mapping[str, Any] | None = None,
        context_variables: ContextVariables | None = None,
        exclude_transit_message: bool = True,
        summary_method: str | Callable[..., Any] | None = "last_msg",
    ) -> None:
        super().__init__(
            initial_agent,
            agents,
            user_agent,
            group_manager_args,
            context_variables,
            AskUserTarget(),
            exclude_transit_message,
            summary_method,
        )

    def after_works(self) -> Mapping[str, TransitionTarget]:
        """A person is asked."""
        return {agent.name: AskUserTarget() for agent in self.everybody()}
