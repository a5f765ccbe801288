"""The team whose members speak one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from callboard.conditions.base import TerminationCondition
from callboard.foundation.component import Component
from callboard.messages.base import BaseAgentEvent, BaseChatMessage

from .config import TeamConfig, common_config
from .group_chat import BaseGroupChat
from .local import Participant
from .selection import SpeakerSelection
from .selections.round_robin import RoundRobinSelection


class RoundRobinGroupChatConfig(TeamConfig):
    """A RoundRobinGroupChat as plain data."""


class RoundRobinGroupChat(BaseGroupChat, Component[RoundRobinGroupChatConfig]):
    """A team whose members speak one after the other, again and again.

    Args:
        participants: The members, in their order.
        name: Its name.
        description: What it can do, for a larger team.
        termination_condition: When a run ends; None: `max_turns` ends it, or nothing.
        max_turns: How many turns a run has at most.
        **options: See BaseGroupChat.
    """

    component_config_schema = RoundRobinGroupChatConfig
    component_provider_override = "callboard.teams.RoundRobinGroupChat"

    def __init__(
        self,
        participants: Sequence[Participant],
        *,
        name: str | None = None,
        description: str | None = None,
        termination_condition: TerminationCondition | None = None,
        max_turns: int | None = None,
        custom_message_types: Sequence[type[BaseAgentEvent | BaseChatMessage]] | None = None,
        emit_team_events: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(
            participants,
            name=name or "RoundRobinGroupChat",
            description=description or "A team of agents.",
            manager_name="RoundRobinGroupChatManager",
            termination_condition=termination_condition,
            max_turns=max_turns,
            custom_message_types=custom_message_types,
            emit_team_events=emit_team_events,
            **options,
        )

    def _to_config(self) -> RoundRobinGroupChatConfig:
        return RoundRobinGroupChatConfig(**common_config(self))

    @classmethod
    def _from_config(cls, config: RoundRobinGroupChatConfig) -> Self:
        return cls(**config.arguments())

    def new_selection(self) -> SpeakerSelection:
        """One after the other, beginning with the first."""
        return RoundRobinSelection()
