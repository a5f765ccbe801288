"""The team whose members speak at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from callboard.conditions.base import TerminationCondition
from callboard.foundation.component import Component, NotDumpableError
from callboard.messages.base import BaseAgentEvent, BaseChatMessage

from .checks import check_participants
from .config import TeamConfig, common_config
from .errors import TeamDeclarationError
from .group_chat import BaseGroupChat
from .local import Participant
from .selection import SpeakerSelection
from .selections.concurrent import ConcurrentSelection, SpeakersFunc


class ConcurrentGroupChatConfig(TeamConfig):
    """A ConcurrentGroupChat as plain data; the last of the participants is the aggregator, if there is one."""

    has_aggregator: bool = False
    rounds: int = 1


class ConcurrentGroupChat(BaseGroupChat, Component[ConcurrentGroupChatConfig]):
    """A team whose members work on the same task at the same time; then one of them may join what they said.

    In the first round each member hears the task only, in the next ones what the others said in the round before. AutoGen
    has no such team; Microsoft's Agent Framework calls it concurrent orchestration.

    Args:
        participants: Those who speak at once.
        aggregator: Who speaks last, having heard all of them; None: nobody does.
        rounds: How often they speak for one task.
        speakers_func: Says which of the participants speak for a task, from all that was said; may be async. None: all.
        name: Its name.
        description: What it can do, for a larger team.
        termination_condition: When a run ends before that; it is asked after each round.
        custom_message_types: Types of messages of your own that members say.
        emit_team_events: Whether readers see who speaks.
        **options: See BaseGroupChat.

    Raises:
        TeamDeclarationError: There is nobody to speak, or no round (a ValueError).
    """

    component_config_schema = ConcurrentGroupChatConfig
    component_provider_override = "callboard.teams.ConcurrentGroupChat"

    def __init__(
        self,
        participants: Sequence[Participant],
        *,
        aggregator: Participant | None = None,
        rounds: int = 1,
        speakers_func: SpeakersFunc | None = None,
        name: str | None = None,
        description: str | None = None,
        termination_condition: TerminationCondition | None = None,
        custom_message_types: Sequence[type[BaseAgentEvent | BaseChatMessage]] | None = None,
        emit_team_events: bool = False,
        **options: Any,
    ) -> None:
        check_participants(participants)
        if rounds < 1:
            raise TeamDeclarationError("The number of rounds must be greater than 0.")
        super().__init__(
            [*participants, *(() if aggregator is None else (aggregator,))],
            name=name or "ConcurrentGroupChat",
            description=description or "A team of agents.",
            manager_name="ConcurrentGroupChatManager",
            termination_condition=termination_condition,
            custom_message_types=custom_message_types,
            emit_team_events=emit_team_events,
            **options,
        )
        self._aggregator = aggregator
        self._rounds = rounds
        self._speakers_func = speakers_func

    def _to_config(self) -> ConcurrentGroupChatConfig:
        if self._speakers_func is not None:
            raise NotDumpableError("ConcurrentGroupChat", "its speakers_func is a function")
        return ConcurrentGroupChatConfig(
            **common_config(self), has_aggregator=self._aggregator is not None, rounds=self._rounds
        )

    @classmethod
    def _from_config(cls, config: ConcurrentGroupChatConfig) -> Self:
        arguments = config.arguments()
        if config.has_aggregator:
            *arguments["participants"], arguments["aggregator"] = arguments["participants"]
        return cls(**arguments, rounds=config.rounds)

    def new_selection(self) -> SpeakerSelection:
        """All at once, beginning with the first round."""
        return ConcurrentSelection(
            rounds=self._rounds,
            aggregator=None if self._aggregator is None else self._aggregator.name,
            speakers_func=self._speakers_func,
        )
