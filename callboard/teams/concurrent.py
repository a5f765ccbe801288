"""The team whose members speak at the same time, and its strategy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Self, TypeAlias

from pydantic import BaseModel, Field

from callboard.agents.base import Said
from callboard.conditions.base import TerminationCondition
from callboard.foundation.component import Component, NotDumpableError
from callboard.messages.chat import BaseAgentEvent, BaseChatMessage

from .errors import SpeakerChoiceError, TeamDeclarationError
from .group_chat import BaseGroupChat, TeamConfig, check_participants, common_config
from .loop import Choice, Floor, Participant, SpeakerSelection, called

ALL_SPOKE: Final = "All {count} participants have spoken."
ROUNDS_OVER: Final = "{rounds} rounds are over."
AGGREGATED: Final = "{name} has joined what was said."

SpeakersFunc: TypeAlias = Callable[[Sequence[Said]], "Sequence[str] | Awaitable[Sequence[str]]"]


class ConcurrentState(BaseModel):
    """How far the work on a task is.

    Attributes:
        round: How many rounds have begun; the aggregator's turn is one more.
        speakers: Who speaks in all of them; empty: none was chosen yet.
        waiting: Who was asked; who has not spoken when a run was interrupted is asked again.
    """

    round: int = 0
    speakers: list[str] = Field(default_factory=list)
    waiting: list[str] = Field(default_factory=list)


class ConcurrentSelection(SpeakerSelection):
    """All, or those whom a function chooses, in each round; then the aggregator; then the end.

    Args:
        rounds: How often they speak.
        aggregator: Name of the member who speaks last; None: none does.
        speakers_func: Says who speaks, from all that was said; None: all but the aggregator.
    """

    def __init__(self, *, rounds: int, aggregator: str | None, speakers_func: SpeakersFunc | None) -> None:
        self._rounds = rounds
        self._aggregator = aggregator
        self._speakers_func = speakers_func
        self._state = ConcurrentState()

    async def select(self, floor: Floor) -> Choice:
        """Those who have not spoken in a round that was interrupted, or the next round."""
        if floor.task:
            self._state = ConcurrentState()
        missing = [name for name in self._state.waiting if name not in floor.answers]
        if missing:
            return self._ask(missing)
        if not self._state.speakers:
            self._state.speakers = await self._chosen(floor)
        self._state.round += 1
        if self._state.round <= self._rounds:
            return self._ask(self._state.speakers)
        if self._state.round == self._rounds + 1 and self._aggregator is not None:
            return self._ask([self._aggregator])
        return self._end()

    def _ask(self, names: Sequence[str]) -> Choice:
        self._state.waiting = list(names)
        return Choice(names)

    def _end(self) -> Choice:
        count = len(self._state.speakers)
        self._state = ConcurrentState()
        if self._aggregator is not None:
            return Choice(stop=AGGREGATED.format(name=self._aggregator))
        return Choice(
            stop=ALL_SPOKE.format(count=count)
            if self._rounds == 1
            else ROUNDS_OVER.format(rounds=self._rounds)
        )

    async def _chosen(self, floor: Floor) -> list[str]:
        everybody = [name for name in floor.names if name != self._aggregator]
        if self._speakers_func is None:
            return everybody
        chosen: Sequence[str] | None = await called(self._speakers_func, floor.thread)
        if not chosen or not set(chosen) <= set(everybody):
            raise SpeakerChoiceError(
                f"speakers_func has to choose at least one of {everybody}, and chose {chosen!r}."
            )
        return list(dict.fromkeys(chosen))

    async def reset(self) -> None:
        """No member has spoken."""
        self._state = ConcurrentState()

    async def save_state(self) -> Mapping[str, Any]:
        """How far the work is."""
        return self._state.model_dump()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned."""
        self._state = ConcurrentState.model_validate(dict(state))


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
        aggregator: Who speaks last, having heard all of them; None: none does.
        rounds: How often they speak for one task.
        speakers_func: Says which of the participants speak for a task, from all that was said; may be async. None: all.
        name: Its name.
        description: What it can do, for a larger team.
        termination_condition: When a run ends before that; it is asked after each round.
        custom_message_types: Types of messages of your own that members say.
        emit_team_events: Whether readers see who speaks.
        **options: See BaseGroupChat.

    Raises:
        TeamDeclarationError: There is no member to speak, or no round (a ValueError).
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
