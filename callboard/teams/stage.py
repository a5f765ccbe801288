"""What the readers of runs see of one message that the manager handles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from callboard.agents.task import Said
from callboard.broker import AgentId
from callboard.messages.base import BaseAgentEvent

from .drafts import Drafts, tag_of
from .manager_state import CurrentRun
from .orders import Answer, RunBegan, RunEnded, RunHeld, Shown
from .sizes import parts_of

if TYPE_CHECKING:
    from callboard.protocol import AgentRuntime


@dataclass(slots=True)
class _Batch:
    """Entries that are written together."""

    stream: str
    tag: str
    settles: str
    since: int
    events: list[Shown | RunHeld | RunEnded] = field(default_factory=list)


class Stage:
    """Collects what readers are to see, and writes it with the commit of the message that is handled.

    What belongs to a nested team is a draft in the stream of the outermost one: it counts when that one has heard the
    whole turn.

    Args:
        runtime: Writes to the streams of runs.
        team: Address of the manager in the conversation.
        name: The source of what the manager says.
    """

    def __init__(self, runtime: AgentRuntime, team: AgentId, name: str) -> None:
        self._runtime = runtime
        self._team = team
        self._name = name
        self._batches: list[_Batch] = []
        self._drafts: Drafts | None = None

    def task(self, run: CurrentRun, messages: Sequence[Said]) -> None:
        """The beginning of a run, with its task; that of a nested team was seen already, where it was said."""
        if run.parent is None:
            began = RunBegan(team=self._team.type, conversation=self._team.key, run_id=run.run_id)
            shown = Shown(
                turn=(0,), source="", attempt="", messages=list(messages), is_final=True, is_task=True
            )
            self._add(run, shown.model_copy(update={"began": began}))

    def said(self, run: CurrentRun, messages: Sequence[Said]) -> None:
        """Something that the manager says or lets be seen."""
        attempt = "" if self._drafts is None else self._drafts.attempt
        self._drafts = None
        turn = (*run.inside, 0)
        self._add(
            run, Shown(turn=turn, source=self._name, attempt=attempt, messages=list(messages), is_final=True)
        )

    def turn(self, run: CurrentRun, member: str, answer: Answer) -> None:
        """What a member has said, in parts that are small enough. It takes the place of its drafts."""
        turn = (*run.inside, answer.turn)
        has_drafts = (answer.drafts or answer.is_team) and not run.inside
        settles = tag_of(turn) if has_drafts else ""
        *others, last = parts_of(answer.messages)
        shown = Shown(turn=turn, source=member, attempt=answer.attempt, messages=last, is_final=True)
        for part in others:
            self._add(
                run, shown.model_copy(update={"messages": part, "goes_on": True}), settles, answer.drafts
            )
            settles = ""
        self._add(run, shown, settles, answer.drafts)

    def held(self, run: CurrentRun, turn: int) -> None:
        """It waits to be told that a turn may begin."""
        self._add(run, RunHeld(turn=turn))

    def ended(self, run: CurrentRun, end: RunEnded) -> None:
        """The end of a run."""
        self._add(run, end)

    async def show(self, run: CurrentRun, event: BaseAgentEvent) -> None:
        """Something that is seen at once, while the strategy chooses."""
        if self._drafts is None:
            self._drafts = Drafts(self._runtime, run.stream, (*run.inside, 0), self._name)
        await self._drafts.show(event)

    async def write(self) -> None:
        """Hands everything to the commit."""
        if self._drafts is not None:
            await self._drafts.flush()
        for batch in self._batches:
            await self._runtime.write_run(
                batch.stream, batch.events, tag=batch.tag, settles=batch.settles, since=batch.since
            )
        self._batches.clear()

    def _add(
        self, run: CurrentRun, entry: Shown | RunHeld | RunEnded, settles: str = "", since: int = 0
    ) -> None:
        tag = tag_of(run.inside)
        last = self._batches[-1] if self._batches else None
        if last is None or (last.stream, last.tag) != (run.stream, tag) or (settles and last.settles):
            last = _Batch(run.stream, tag, settles, since)
            self._batches.append(last)
        if settles:
            last.settles, last.since = settles, since
        last.events.append(entry)
