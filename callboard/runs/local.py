"""A run in this process. It goes on by itself, whoever reads; what happens in it is kept as long as somebody holds it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, aclosing
from datetime import UTC, datetime
from typing import Any
from weakref import WeakValueDictionary

from callboard.agents.task import Said, Task, TaskResult
from callboard.asking import asking_by
from callboard.cancellation import CancellationToken
from callboard.groupchat.stream import IOStream
from callboard.models.in_run import counted_here
from callboard.models.run_usage import RunUsage
from callboard.models.stores import InMemoryStore
from callboard.models.usage import UsageLedger
from callboard.runtime.runs import speaking_as, usage_run
from callboard.teams.budget import RunBudget
from callboard.teams.errors import TeamRunError
from callboard.teams.group_chat import BaseGroupChat
from callboard.teams.loop import is_kept

from .answering_here import ProcessQuestion, ProcessQuestions
from .console_stream import RunStream
from .errors import RunCancelledError
from .event import Event
from .events import (
    CompletedEvent,
    ErrorEvent,
    InputResponseEvent,
    SystemEvent,
)
from .projection import Projection
from .source import RunSource, RunState, without_team
from .steps import Steps, StepTaken

# By id, as long as somebody holds them: for `previous_run`.
_runs: WeakValueDictionary[str, ProcessRun] = WeakValueDictionary()


def run_here(run_id: str) -> ProcessRun | None:
    """The run of this process with an id; None: there is none, or nobody holds it any more."""
    return _runs.get(run_id)


class ProcessRun(RunSource):
    """One run of a team in this process; has to be made where its event loop runs.

    Args:
        run_id: Its id.
        team: Carries it out.
        task: What to do.
        steps: Holds it back until a reader has seen what happened; None: nothing does.
        is_async: Whether questions are events for async readers.
        budget: The most that it may use.

    Attributes:
        loop: The event loop that it lives in.
    """

    def __init__(
        self,
        run_id: str,
        team: BaseGroupChat,
        task: Task,
        *,
        steps: Steps | None,
        is_async: bool,
        budget: RunBudget | None,
    ) -> None:
        self._id = run_id
        self.team = team
        self.questions = ProcessQuestions(self._question_begins, self._question_ends)
        self._projection = Projection(run_id, is_async=is_async)
        self._events: list[Event] = []
        self._grown = asyncio.Event()
        self._steps = steps
        self._state: RunState = "working"
        self._token = CancellationToken()
        self._result: TaskResult | None = None
        self._error: Exception | None = None
        self._budget = budget
        self._said: list[Said] = []
        self._store = InMemoryStore()
        self._ledger = UsageLedger(self._store)
        self.loop = asyncio.get_running_loop()
        self._running = asyncio.create_task(self._run(task), name=f"run {run_id}")
        self._running.add_done_callback(self._settle)
        _runs[run_id] = self

    @property
    def run_id(self) -> str:
        """Its id."""
        return self._id

    async def wait(self) -> None:
        """Until it has ended, however."""
        if self._steps is not None:
            self._steps.stop()
        await asyncio.wait([self._running])

    # The run

    async def _run(self, task: Task) -> None:
        try:
            with ExitStack() as around:
                for block in self._around():
                    around.enter_context(block)
                await self._carry_out(task)
        except asyncio.CancelledError:
            self._end("cancelled", CompletedEvent, state="cancelled")
        except Exception as error:  # noqa: BLE001 - it is raised for whoever asks for the result
            self._error = error
            self._fail(error)

    def _around(self) -> Iterator[AbstractContextManager[Any]]:
        """What is in force while the run goes on, for whatever it calls."""
        yield usage_run(self._id)
        yield counted_here(self._store)
        yield speaking_as(self.team.name)
        yield asking_by(self.questions.ask)
        yield IOStream.set_default(
            RunStream(self.questions.ask, lambda text: self._add(SystemEvent, value=text))
        )

    async def _carry_out(self, task: Task) -> None:
        stream = self.team.run_stream(task=task, cancellation_token=self._token, budget=self._budget)
        async with aclosing(stream) as items:
            async for item in items:
                if isinstance(item, TaskResult):
                    self._result = item
                elif isinstance(item, StepTaken):
                    item.reached.set_result(None)
                else:
                    self._show(item)
        if self._result is not None:
            self._end("completed", CompletedEvent, stop_reason=self._result.stop_reason)

    def _show(self, said: Said) -> None:
        if is_kept(said):
            self._said.append(said)
        self._extend(self._projection.of(said, len(self._events) + 1, said.created_at))

    def _fail(self, error: Exception) -> None:
        run_error = error if isinstance(error, TeamRunError) else None
        self._end(
            "failed",
            ErrorEvent,
            source=run_error.where if run_error else "",
            error_type=run_error.error_type if run_error else type(error).__name__,
            content=run_error.text if run_error else str(error),
            where=run_error.where if run_error else "",
        )

    def _settle(self, running: asyncio.Task[None]) -> None:
        if not self._is_over:  # it was cancelled before its first step
            self._end("cancelled", CompletedEvent, state="cancelled")

    def _end(self, became: RunState, kind: type[Event], **fields: Any) -> None:
        self._state = became
        self._add(kind, **fields)

    def _add(self, kind: type[Event], **fields: Any) -> None:
        self._extend([self._projection.make(kind, len(self._events) + 1, datetime.now(UTC), fields)])

    def _extend(self, events: Sequence[Event]) -> None:
        self._events.extend(events)
        if self._steps is not None:
            self._steps.hold()
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()

    def _question_begins(self, asked: ProcessQuestion) -> None:
        question = asked.question
        self._add(
            self._projection.asks_as,
            prompt=question.text,
            request_id=asked.id,
            choices=question.choices,
            answer_schema=json.loads(question.schema),
            details=asked.details,
            expires=asked.expires,
        )

    def _question_ends(self, asked: ProcessQuestion, value: Any) -> None:
        self._add(
            InputResponseEvent, value=value, request_id=asked.id, by=asked.by, status=asked.status.value
        )

    # For readers

    async def read(self, after: int, drafts: bool) -> AsyncGenerator[Sequence[Event], None]:
        """Its events; see RunSource. Here nothing is a draft."""
        place = after
        while True:
            grown = self._grown
            if place < len(self._events):
                portion = self._events[place : place + 1] if self._steps else self._events[place:]
                place += len(portion)
                yield portion
            elif self._is_over:
                return
            elif self._steps is not None:
                await self._steps.wanted(grown.wait())
            else:
                await grown.wait()

    @property
    def _is_over(self) -> bool:
        return self._state in ("completed", "failed", "cancelled")

    async def state(self) -> RunState:
        """How it stands."""
        return "input_required" if not self._is_over and self.questions.is_waiting else self._state

    async def result(self) -> TaskResult:
        """What came of it; waits for the end."""
        await self.wait()
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise RunCancelledError(self._id)
        return self._result

    async def said(self) -> Sequence[Said]:
        """Everything that was said and happened until now."""
        return self._said

    async def cost(self) -> RunUsage:
        """What its models used until now."""
        return without_team(await self._ledger.of_run(self._id), self.team.name)

    # Orders

    async def answer(self, request_id: str, value: Any, by: str) -> None:
        """Answer a question."""
        self.questions.answer(request_id, value, by)

    async def cancel(self) -> None:
        """End it now, and wait until it has ended."""
        if not self._running.done():
            self._token.cancel()
            self._running.cancel()
            await self.wait()

    async def pause(self) -> bool:
        """Let nobody begin to speak."""
        if self._state != "working":
            return False
        await (
            self.team.save_state()
        )  # which makes the team's conversation, where the run has not begun to speak
        await self.team.pause()
        self._state = "paused"
        return True

    async def step(self) -> bool:
        """Let its next turn begin."""
        return self._steps is not None and self._steps.allow()

    async def resume(self) -> bool:
        """Let it go on."""
        if self._state != "paused":
            return False
        self._state = "working"
        await self.team.resume()
        return True
