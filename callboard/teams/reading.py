"""A run as its readers see it: what is shown while a turn is under way, and what counts when it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from callboard.agents.task import Said, TaskResult
from callboard.messages.events import AttemptEndedEvent

from .loop import is_kept
from .orders import RunEnded, Shown
from .run_errors import error_of

if TYPE_CHECKING:
    from callboard.runtime.run_reading import RunEntry


GOES_ON: Final = "goes on with the answer, and says again what it said before"


@dataclass(slots=True)
class _Attempt:
    """What was shown of one attempt at a turn.

    Attributes:
        name: Of the attempt.
        source: Who speaks.
        ids: Of the messages that were shown.
    """

    name: str
    source: str
    ids: set[str] = field(default_factory=set)


async def followed(entries: AsyncIterable[RunEntry], run_id: str) -> AsyncGenerator[Said | TaskResult, None]:
    """What is said in a run, from its entries, and at last what came of it.

    Raises:
        TeamRunError: It has failed (a RuntimeError).
        asyncio.CancelledError: It was cancelled.
    """
    reading = RunReading(shows_task=True)
    async for entry in entries:
        if isinstance(entry.event, Shown):
            for message in reading.show(entry.event):
                yield message
        elif isinstance(entry.event, RunEnded):
            yield reading.ended(entry.event, run_id)
            return


class RunReading:
    """Puts together what a run's stream has.

    Everything is shown once. When the process dies in which somebody was speaking, another attempt at the turn begins: an
    AttemptEndedEvent says that what was shown of the first one is void.

    Args:
        shows_task: Whether the task is shown, and part of the result.
    """

    def __init__(self, shows_task: bool) -> None:
        self._shows_task = shows_task
        self._attempts: dict[tuple[int, ...], _Attempt] = {}
        self._kept: list[Said] = []
        self._asides: set[str] = set()  # ids
        self._asking: set[tuple[int, ...]] = set()  # turns that have asked a person

    def show(self, shown: Shown) -> Iterator[Said]:
        """What is new in an entry."""
        if shown.is_aside:
            yield from self._aside(shown)
            return
        if shown.is_task:
            if self._shows_task:
                self._kept.extend(shown.messages)
                yield from shown.messages
            return
        attempt = self._attempts.get(shown.turn)
        # guard: what a dead process has said is void
        if attempt is not None and attempt.name != shown.attempt:
            ended = AttemptEndedEvent(source=attempt.source, void_ids=sorted(attempt.ids))
            if shown.turn in self._asking:
                ended.content = GOES_ON
            yield ended
            attempt = None
        if attempt is None:
            attempt = self._attempts[shown.turn] = _Attempt(shown.attempt, shown.source)
        seen = self._seen(shown.turn)
        for message in shown.messages:
            if message.id not in seen:
                attempt.ids.add(message.id)
                yield message
        if shown.is_final:
            self._settle(shown)

    def _aside(self, shown: Shown) -> Iterator[Said]:
        for message in shown.messages:
            # guard: what several attempts have written is shown once
            if message.id not in self._asides:
                self._asides.add(message.id)
                self._asking.add(shown.turn)
                yield message

    def result(self, end: RunEnded) -> TaskResult:
        """What came of the run."""
        return TaskResult(messages=self._kept, stop_reason=end.stop_reason)

    def ended(self, end: RunEnded, run_id: str) -> TaskResult:
        """The same, of a run that was completed.

        Raises:
            TeamRunError: It has failed (a RuntimeError).
            asyncio.CancelledError: It was cancelled.
        """
        if end.error is not None:
            raise error_of(end.error)
        if end.state == "cancelled":
            raise asyncio.CancelledError(f"the run {run_id} was cancelled")
        return self.result(end)

    def _seen(self, turn: tuple[int, ...]) -> set[str]:
        """Ids of what was shown of a turn and of the turns inside it, but for what is void."""
        inside = [a.ids for path, a in self._attempts.items() if path[: len(turn)] == turn]
        return inside[0] if len(inside) == 1 else set().union(*inside)

    def _settle(self, shown: Shown) -> None:
        """A turn of the outermost team has ended: that is what counts."""
        if len(shown.turn) == 1:
            self._kept.extend(filter(is_kept, shown.messages))
            if shown.goes_on:
                return
            self._attempts = {path: a for path, a in self._attempts.items() if path[0] != shown.turn[0]}
