"""All speak at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, Field

from callboard.agents.task import Said
from callboard.teams.errors import SpeakerChoiceError
from callboard.teams.selection import Choice, Floor, SpeakerSelection

from .called import called

ALL_SPOKE: Final = "All {count} participants have spoken."
ROUNDS_OVER: Final = "{rounds} rounds are over."
AGGREGATED: Final = "{name} has joined what was said."

SpeakersFunc: TypeAlias = Callable[[Sequence[Said]], "Sequence[str] | Awaitable[Sequence[str]]"]


class ConcurrentState(BaseModel):
    """How far the work on a task is.

    Attributes:
        round: How many rounds have begun; the aggregator's turn is one more.
        speakers: Who speaks in all of them; empty: nobody was chosen yet.
        waiting: Who was asked; who has not spoken when a run was interrupted is asked again.
    """

    round: int = 0
    speakers: list[str] = Field(default_factory=list)
    waiting: list[str] = Field(default_factory=list)


class ConcurrentSelection(SpeakerSelection):
    """All, or those whom a function chooses, in each round; then the aggregator; then the end.

    Args:
        rounds: How often they speak.
        aggregator: Name of the member who speaks last; None: nobody does.
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
        """Nobody has spoken."""
        self._state = ConcurrentState()

    async def save_state(self) -> Mapping[str, Any]:
        """How far the work is."""
        return self._state.model_dump()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned."""
        self._state = ConcurrentState.model_validate(dict(state))
