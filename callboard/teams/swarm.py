"""The team whose members hand over to each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from callboard.agents.chat_agent import ChatAgent
from callboard.agents.team import Team
from callboard.conditions.base import TerminationCondition
from callboard.foundation.component import Component
from callboard.messages.base import BaseAgentEvent, BaseChatMessage
from callboard.messages.chat import HandoffMessage

from .checks import check_participants
from .config import TeamConfig, common_config
from .errors import ParticipantTypeError, TeamDeclarationError
from .group_chat import BaseGroupChat
from .selection import SpeakerSelection
from .selections.swarm import SwarmSelection


class SwarmConfig(TeamConfig):
    """A Swarm as plain data."""


class Swarm(BaseGroupChat, Component[SwarmConfig]):
    """A team whose members hand over to each other: the target of the last HandoffMessage speaks.

    The first member begins, and whoever has not handed over speaks again. A run that ended because of a
    HandoffTermination, with a target outside of the team, goes on with a HandoffMessage to a member as its task. A member
    that hands over to somebody unknown ends the run with an error, where AutoGen's fails with an assertion.

    Args:
        participants: The members, agents only; the first must be able to hand over.
        name: Its name.
        description: What it can do, for a larger team.
        termination_condition: When a run ends; None: `max_turns` ends it, or nothing.
        max_turns: How many turns a run has at most.
        custom_message_types: Types of messages of your own that members say.
        emit_team_events: Whether readers see who is next.
        **options: See BaseGroupChat.

    Raises:
        ParticipantTypeError: A member is a team (a TypeError).
        TeamDeclarationError: The first member does not produce HandoffMessages (a ValueError).
    """

    component_config_schema = SwarmConfig
    component_provider_override = "callboard.teams.Swarm"

    def __init__(
        self,
        participants: Sequence[ChatAgent],
        *,
        name: str | None = None,
        description: str | None = None,
        termination_condition: TerminationCondition | None = None,
        max_turns: int | None = None,
        custom_message_types: Sequence[type[BaseAgentEvent | BaseChatMessage]] | None = None,
        emit_team_events: bool = False,
        **options: Any,
    ) -> None:
        check_participants(participants)
        for participant in participants:
            if isinstance(participant, Team):
                raise ParticipantTypeError(participant.name, "Swarm")
        super().__init__(
            participants,
            name=name or "Swarm",
            description=description or "A team of agents.",
            manager_name="SwarmGroupChatManager",
            termination_condition=termination_condition,
            max_turns=max_turns,
            custom_message_types=custom_message_types,
            emit_team_events=emit_team_events,
            **options,
        )
        if HandoffMessage not in participants[0].produced_message_types:
            raise TeamDeclarationError("The first participant must be able to produce a handoff messages.")

    def _to_config(self) -> SwarmConfig:
        return SwarmConfig(**common_config(self))

    @classmethod
    def _from_config(cls, config: SwarmConfig) -> Self:
        return cls(**config.arguments())

    def new_selection(self) -> SpeakerSelection:
        """Whoever is handed over to, beginning with the first."""
        return SwarmSelection()
