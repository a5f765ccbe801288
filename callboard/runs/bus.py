"""A run on the bus: it goes on with or without readers, whatever process dies, and may be read from any process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final

from callboard.agents.base import Said, TaskResult
from callboard.broker import AgentId
from callboard.models.types import RunUsage
from callboard.runtime.run_history import RunEntry
from callboard.teams.client import TeamClient
from callboard.teams.errors import RunCancelledError, TeamNotRunError
from callboard.teams.listing import stored_state
from callboard.teams.loop import is_kept
from callboard.teams.outcome import error_of
from callboard.teams.protocol import RunEnded, RunHeld, Shown, stream_of
from callboard.testing.cassette import Cassette

from .events import CompletedEvent, ErrorEvent, Event, InterruptedEvent
from .projection import Projection
from .response import RunSource, RunState, without_team

_STATES: Final[dict[str, RunState]] = {"paused": "paused", "input_required": "input_required"}
"""States of a team's run that are ours; in the others it works."""

ROOM: Final = 1_000_000
"""Numbers for the events of one entry of the stream: event `n * ROOM + i` comes from entry `n`."""


LOOKED_BACK: Final = 20_000
"""Entries before the place of a reader in which the turns under way have begun: half a second's reading, at most."""


class _Attempts:
    """The attempts at turns of which something was shown that does not count yet."""

    def __init__(self) -> None:
        self._begun: dict[tuple[int, ...], tuple[str, int]] = {}  # by turn: the attempt, and its first entry

    def take(self, entry: RunEntry, shown: Shown) -> int:
        """Note an entry; return the number of the first entry that is void by it, 0: none."""
        if shown.is_aside or shown.is_task:
            return 0
        attempt, first = self._begun.get(shown.turn, (shown.attempt, 0))
        # A reader who goes on from a number hears that what it has is void.
        void = first if attempt != shown.attempt else 0
        if entry.tag and (void or not first):
            self._begun[shown.turn] = shown.attempt, entry.number
        elif not entry.tag and not shown.goes_on:
            inside = len(shown.turn)
            self._begun = {turn: one for turn, one in self._begun.items() if turn[:inside] != shown.turn}
        return void


class BusRun(RunSource):
    """One run of a team on the bus.

    Args:
        team: The conversation.
        run_id: Its id.
        is_async: Whether its questions are for async readers.
        steps: Whether those who read through this let its turns begin.
    """

    def __init__(self, team: TeamClient, run_id: str, *, is_async: bool = True, steps: bool = False) -> None:
        self.team = team
        self._id = run_id
        self._address = AgentId(team.team, team.conversation)
        self._projection = Projection(run_id, is_async=is_async)
        self._end: RunEnded | None = None
        self._steps = steps

    @property
    def run_id(self) -> str:
        """Its id."""
        return self._id

    # For readers

    async def read(self, after: int, drafts: bool) -> AsyncGenerator[Sequence[Event], None]:
        """Its events; see RunSource."""
        # The entry of which some events are known may have more of them: it is read again.
        place = max(after // ROOM - 1, 0)
        asides = None if place else set[str]()
        attempts = await self._attempts_before(place) if drafts else None
        async with aclosing(self.team.portions(self._id, after=place)) as portions:
            async for portion in portions:
                if asides is None and any(map(_is_aside, portion)):
                    asides = await self._asides_before(place)
                events, is_over = self._events(portion, attempts, asides)
                yield _behind(after, events)
                if is_over:
                    return
                # Who reads has seen all of it, and waits for more.
                if self._steps and portion and isinstance(portion[-1].event, RunHeld):
                    await self._step(turn=portion[-1].event.turn)

    def _events(
        self, portion: Sequence[RunEntry], attempts: _Attempts | None, asides: set[str] | None
    ) -> tuple[list[Event], bool]:
        """The events of some entries, and whether the last one is the end of the run."""
        events: list[Event] = []
        for entry in portion:
            if isinstance(entry.event, Shown):
                events += self._interrupted(entry, entry.event, attempts)
                events += self._shown(entry, entry.event, attempts is not None, asides)
            elif isinstance(entry.event, RunEnded):
                return [*events, self._last(entry, entry.event)], True
        return events, False

    async def _step(self, **order: Any) -> bool:
        with suppress(TeamNotRunError):  # it has ended meanwhile
            return await self.team.step(run_id=self._id, **order)
        return False

    def _interrupted(self, entry: RunEntry, shown: Shown, attempts: _Attempts | None) -> list[Event]:
        """That what was shown of a turn is void, before the first event of another attempt at it."""
        since = 0 if attempts is None else attempts.take(entry, shown)
        if not since:
            return []
        # The number before those of the entry: these are the same for who wants no drafts.
        number, fields = entry.number * ROOM, {"source": shown.source, "since": since * ROOM}
        return [self._projection.make(InterruptedEvent, number, entry.at, fields, is_draft=True)]

    async def _attempts_before(self, place: int) -> _Attempts:
        """The attempts that a reader knows who has read up to an entry."""
        attempts = _Attempts()
        if place:
            async for entry in self._kept(max(0, place - LOOKED_BACK)):
                if entry.number > place:
                    break
                if isinstance(entry.event, Shown):
                    attempts.take(entry, entry.event)
        return attempts

    async def _asides_before(self, place: int) -> set[str]:
        """Ids of what was written beside the turns up to an entry: each of them counts once, though it may come again.

        All of the stream before that is read, so only who comes across one asks.
        """
        asides: set[str] = set()
        async for entry in self._kept():
            if entry.number > place:
                break
            if _is_aside(entry):
                asides.update(said.id for said in entry.event.messages)
        return asides

    def _shown(self, entry: RunEntry, shown: Shown, drafts: bool, asides: set[str] | None) -> list[Event]:
        is_draft = bool(entry.tag)
        if is_draft and not drafts:
            return []
        said = shown.messages
        if shown.is_aside and asides is not None:
            said = [one for one in said if one.id not in asides]
            asides.update(one.id for one in said)
        events: list[Event] = []
        for one in said:
            number = entry.number * ROOM + len(events) + 1
            events += self._projection.of(one, number, entry.at, is_draft=is_draft)
        return events

    def _last(self, entry: RunEntry, end: RunEnded) -> Event:
        number, make = entry.number * ROOM + 1, self._projection.make
        error = end.error
        if error is not None:
            fields = {"error_type": error.error_type, "content": error.text, "where": error.where}
            return make(ErrorEvent, number, entry.at, {"source": error.where, **fields})
        state = "cancelled" if end.state == "cancelled" else "completed"
        return make(CompletedEvent, number, entry.at, {"state": state, "stop_reason": end.stop_reason})

    async def state(self) -> RunState:
        """How it stands."""
        if self._end is None:
            # What is stored says it where every process of the team is down as well.
            stored = await stored_state(self.team.runtime, self._address, self._id)
            if stored != "idle":
                return _STATES.get(stored) or ("input_required" if await self._is_asking() else "working")
            await self.wait()
        return "failed" if self._end is None else self._end.state

    async def _is_asking(self) -> bool:
        return bool(await self.team.runtime.inputs.list(run=stream_of(self._address, self._id)))

    async def wait(self) -> None:
        """Until it has ended, however."""
        if self._end is None:
            if self._steps:
                await self._step(on=True)
            async with aclosing(self.team.entries(self._id)) as entries:
                async for entry in entries:
                    if isinstance(entry.event, RunEnded):
                        self._end = entry.event
                        return

    async def result(self) -> TaskResult:
        """Its result; waits for the end."""
        await self.wait()
        end = self._end
        if end is None or end.state == "cancelled":
            raise RunCancelledError(self._id)
        if end.error is not None:
            raise error_of(end.error)
        result = TaskResult(messages=await self.said(), stop_reason=end.stop_reason)
        return self.team.with_output(result)

    async def said(self) -> Sequence[Said]:
        """Everything that was said and happened until now."""
        said: list[Said] = []
        async for entry in self._kept():
            if isinstance(entry.event, Shown) and not entry.tag and not entry.event.is_aside:
                said += filter(is_kept, entry.event.messages)
        return said

    async def so_far(self, *, drafts: bool = False) -> list[Event]:
        """Its events until now; nothing is waited for.

        Args:
            drafts: Whether those that do not count yet are wanted, too.
        """
        entries = [entry async for entry in self._kept()]
        return self._events(entries, _Attempts() if drafts else None, set())[0]

    async def _kept(self, after: int = 0) -> AsyncGenerator[RunEntry, None]:
        """The entries that its stream has now."""
        stream = stream_of(self._address, self._id)
        async with self.team.runtime.read_run(stream, after=after, live=False) as entries:
            async for entry in entries:
                yield entry

    async def cost(self) -> RunUsage:
        """The use of its models until now."""
        return without_team(await self.team.usage(self._id), self.team.team)

    # Orders

    async def answer(self, request_id: str, value: Any, by: str) -> None:
        """Answer a question."""
        await self.team.runtime.inputs.answer(request_id, value, by=by)

    async def cancel(self) -> None:
        """End it now, and wait until it has ended."""
        if not await self._is_over():
            with suppress(TeamNotRunError):  # it has ended meanwhile
                await self.team.abort(self._id)
        await self.wait()

    async def export(self) -> Cassette:
        """It as a cassette, if it was recorded."""
        return await self.team.export(self._id)

    async def fork(self, conversation: str, at: int | None) -> str:
        """Make another conversation of what was said up to a turn; None: the last one of this run."""
        other = await self.team.fork(conversation, at=at, run_id="" if at is not None else self._id)
        return other.conversation

    async def pause(self) -> bool:
        """Let no agent begin to speak."""
        return await self._told(self.team.pause)

    async def resume(self) -> bool:
        """Let it go on."""
        return await self._told(self.team.resume)

    async def step(self) -> bool:
        """Let its next turn begin."""
        return await self._step()

    async def _is_over(self) -> bool:
        # What is stored says it, also where the manager is away: to ask it would take as long again as the order.
        return await stored_state(self.team.runtime, self._address, self._id) == "idle"

    async def _told(self, order: Any) -> bool:
        if await self._is_over():
            return False
        try:
            return bool(await order(run_id=self._id))
        except TeamNotRunError:
            return False  # it has ended, or has not begun


def _is_aside(entry: RunEntry) -> bool:
    return isinstance(entry.event, Shown) and entry.event.is_aside


def _behind(number: int, events: list[Event]) -> list[Event]:
    return events if not number else [event for event in events if event.number > number]
