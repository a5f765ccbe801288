"""The manager's model chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from callboard.groupchat.context_variables import ContextVariables
from callboard.groupchat.conversable import ConversableAgent
from callboard.groupchat.errors import HandoffError
from callboard.groupchat.handoffs.manager_target import GroupManagerSelectionMessage, GroupManagerTarget

from .pattern import Pattern


class AutoPattern(Pattern):
    """Where an agent hands over to nobody, the manager's model chooses who is next, by what the agents' descriptions say.

    Args:
        initial_agent: As for Pattern.
        agents: As for Pattern.
        user_agent: As for Pattern.
        group_manager_args: As for Pattern. Without "llm_config" the model of the first agent who has one chooses.
        context_variables: As for Pattern.
        selection_message: What the model is told last; None: as the group chat has it.
        exclude_transit_message: As for Pattern.
        summary_method: As for Pattern.
    """

    def __init__(
        self,
        initial_agent: ConversableAgent,
        agents: Sequence[ConversableAgent],
        user_agent: ConversableAgent | None = None,
        group_manager_args: Mapping[str, Any] | None = None,
        context_variables: ContextVariables | None = None,
        selection_message: GroupManagerSelectionMessage | None = None,
        exclude_transit_message: bool = True,
        summary_method: str | Callable[..., Any] | None = "last_msg",
    ) -> None:
        super().__init__(
            initial_agent,
            agents,
            user_agent,
            group_manager_args,
            context_variables,
            GroupManagerTarget(selection_message),
            exclude_transit_message,
            summary_method,
        )
        self.selection_message = selection_message

    def manager_args(self) -> Mapping[str, Any]:
        """For the manager, with a model.

        Raises:
            HandoffError: Nobody has one (a ValueError).
        """
        if self.group_manager_args.get("llm_config"):
            return self.group_manager_args
        client = next((agent.client for agent in self.members if agent.client is not None), None)
        if client is None:
            raise HandoffError(
                "AutoPattern needs a model that chooses: group_manager_args={'llm_config': ...}, or one of an agent."
            )
        return {**self.group_manager_args, "llm_config": client}
