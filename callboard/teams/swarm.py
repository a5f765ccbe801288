"""The team whose members hand over to each other, and its strategy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from pydantic import BaseModel

from callboard.agents.base import ChatAgent, Said, Team
from callboard.conditions.base import TerminationCondition
from callboard.foundation.component import Component
from callboard.messages.chat import BaseAgentEvent, BaseChatMessage, HandoffMessage

from .errors import SpeakerChoiceError, TeamDeclarationError
from .group_chat import BaseGroupChat, TeamConfig, check_participants, common_config
from .loop import Choice, Floor, SpeakerSelection


class SwarmState(BaseModel):
    """Whose turn it is.

    Attributes:
        current_speaker: Who was asked last; None: none.
    """

    current_speaker: str | None = None


class SwarmSelection(SpeakerSelection):
    """The target of the last HandoffMessage, at first the first member; AutoGen's SwarmGroupChatManager.

    AutoGen's walks back through the whole conversation at each turn; this one remembers whose turn it is.
    """

    def __init__(self) -> None:
        self._speaker: str | None = None

    async def check(self, messages: Sequence[BaseChatMessage] | None, floor: Floor) -> None:
        """Refuses a task as long as no member has been handed over to, as after a HandoffTermination.

        Raises:
            SpeakerChoiceError: The last handoff has a target that is no member (a ValueError).
        """
        given = _last_target(messages or ())
        if given is not None:
            if given not in floor.names:
                raise _no_member(given, floor.names)
            return
        target = self._next(floor)
        if target not in floor.names:
            raise _no_member(target, floor.names, "existing handoff target")

    async def select(self, floor: Floor) -> Choice:
        """Who was handed over to, or who spoke last."""
        target = self._next(floor)
        if target not in floor.names:
            raise _no_member(target, floor.names)
        self._speaker = target
        return Choice([target])

    def _next(self, floor: Floor) -> str:
        return _last_target(floor.new) or self._speaker or floor.members[0].name

    async def reset(self) -> None:
        """The first one is next."""
        self._speaker = None

    async def save_state(self) -> Mapping[str, Any]:
        """Whose turn it is."""
        return SwarmState(current_speaker=self._speaker).model_dump()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned."""
        self._speaker = SwarmState.model_validate(dict(state)).current_speaker


def _last_target(messages: Iterable[Said]) -> str | None:
    targets = [message.target for message in messages if isinstance(message, HandoffMessage)]
    return targets[-1] if targets else None


class SwarmConfig(TeamConfig):
    """A Swarm as plain data."""


def _no_member(target: str, members: Sequence[str], what: str = "target") -> SpeakerChoiceError:
    return SpeakerChoiceError(
        f"The {what} {target} is not one of the participants {list(members)}. To go on, for example after a "
        f"HandoffTermination, give a HandoffMessage with one of them as its target as the task."
    )


class Swarm(BaseGroupChat, Component[SwarmConfig]):
    """A team whose members hand over to each other: the target of the last HandoffMessage speaks.

    The first member begins, and a member that has not handed over speaks again. A run that ended because of a
    HandoffTermination, with a target outside of the team, goes on with a HandoffMessage to a member as its task. A member
    that hands over to an unknown name ends the run with an error, where AutoGen's fails with an assertion.

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
        TeamDeclarationError: A member is a team, or the first one does not produce HandoffMessages (a ValueError).
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
                raise TeamDeclarationError(
                    f"Participant {participant.name!r} must be a ChatAgent: a Swarm can't have teams as members."
                )
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
        """The member that is handed over to, beginning with the first."""
        return SwarmSelection()
