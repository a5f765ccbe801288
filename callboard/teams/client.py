"""A conversation of a team that lives on the bus, as a program sees it: from whatever process, and again after its end."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from callboard.agents.responding import result_of
from callboard.agents.task import Said, Task, TaskResult, task_messages
from callboard.broker import AgentId
from callboard.broker.encoding.remote_errors import register_error
from callboard.cancellation import CancellationToken
from callboard.input_request import InputRequest
from callboard.runtime.runs import in_run_path, run_path, usage_run

from .absent import Absent
from .budget import RunBudget, check_budget
from .cancelling import Cancelling
from .errors import (
    TeamBusyError,
    TeamMemberError,
    TeamRunUnknownError,
    TeamStateError,
    TeamTaskError,
)
from .given_ids import check_conversation, check_run_id
from .orders import (
    ANSWERS,
    Accepted,
    Describe,
    IfBusy,
    Load,
    ResetConversation,
    RunEnded,
    Save,
    Saved,
    Shown,
    StartRun,
    path_of,
    stream_of,
)
from .output import with_output
from .reading import RunReading
from .shown_questions import open_questions
from .steering import Steering

if TYPE_CHECKING:
    from pydantic import BaseModel

    from callboard.runtime.run_reading import RunEntry, RunReading as RunEvents
    from callboard.runtime.runtime import RedisAgentRuntime


class TeamClient(Steering):
    """One conversation of a team whose members run anywhere.

    A run goes on by itself: who stops reading it can read it again by its id, from any process.

    Args:
        runtime: Reaches the team.
        team: Its agent type, which is its name.
        conversation: Id of the conversation, such as a customer's or a ticket's; the same one goes on with it.
        output_content_type: What a run's last message is read as; None: it is not.

    Raises:
        SettingValueError: The id of the conversation is empty, or one that is taken (a ValueError).
    """

    def __init__(
        self,
        runtime: RedisAgentRuntime,
        team: str,
        conversation: str = "default",
        output_content_type: type[BaseModel] | None = None,
    ) -> None:
        check_conversation(conversation)
        self.runtime = runtime
        self.team = team
        self.conversation = conversation
        self._output_content_type = output_content_type
        self._address = AgentId(team, conversation)
        runtime.registry.register(*ANSWERS)
        register_error(TeamStateError, TeamMemberError)

    async def run(
        self,
        *,
        task: Task = None,
        cancellation_token: CancellationToken | None = None,
        output_task_messages: bool = True,
        if_busy: IfBusy = "reject",
        run_id: str | None = None,
        budget: RunBudget | None = None,
        record: bool = False,
    ) -> TaskResult:
        """Carry out a task; see `run_stream`."""
        stream = self.run_stream(
            task=task,
            cancellation_token=cancellation_token,
            output_task_messages=output_task_messages,
            if_busy=if_busy,
            run_id=run_id,
            budget=budget,
            record=record,
        )
        return await result_of(stream, self.team)

    async def run_stream(
        self,
        *,
        task: Task = None,
        cancellation_token: CancellationToken | None = None,
        output_task_messages: bool = True,
        if_busy: IfBusy = "reject",
        run_id: str | None = None,
        budget: RunBudget | None = None,
        record: bool = False,
    ) -> AsyncGenerator[Said | TaskResult, None]:
        """Carry out a task; yields what is said as it is said, and at last the TaskResult.

        Args:
            task: What to do; None: go on.
            cancellation_token: Cancels the run, wherever its members are.
            output_task_messages: Whether the task is in the result, too.
            if_busy: What to do when the conversation has a run under way.
            run_id: An id of your own: with the same one, again, the task is not carried out again, and its run is read.
            budget: The most that the run may use; None: the one that the team was declared with, if any.
            record: Keep what models and tools answer, so that `export` can make a cassette of the run.

        Raises:
            TeamBusyError: A run is under way (a ValueError).
            RunBudgetExceededError: The run has used what it may (a RuntimeError).
            TaskError, TeamTaskError: The task is none, or the strategy refuses it (a ValueError).
            TeamRunError: A member, the strategy or a condition failed for good (a RuntimeError).
            TeamOutputError: The last message is not what the team was to answer with (a ValueError).
            TeamRunUnknownError: The server has lost the run with its data (a LookupError).
            asyncio.CancelledError: The run was cancelled.
            RunRightsError: The user of the server may not read runs; it is not begun (a PermissionError).
        """
        is_own_id, run_id = run_id is not None, uuid.uuid4().hex if run_id is None else run_id
        order = self._order(run_id, task, if_busy, budget, record)
        async with self.runtime.read_run(stream_of(self._address, run_id)) as events:  # refuses who may not
            await self._begin(order, is_own_id, cancellation_token)
            # One with an id of the user's may have ended long ago.
            portions = self.portions(run_id) if is_own_id else self._coming(events, run_id)
            async with aclosing(
                self._read(_each(portions), run_id, cancellation_token, output_task_messages)
            ) as items:
                async for item in items:
                    yield item

    async def start(
        self,
        *,
        task: Task = None,
        if_busy: IfBusy = "reject",
        run_id: str | None = None,
        budget: RunBudget | None = None,
        record: bool = False,
        step: bool = False,
    ) -> str:
        """Begin to carry out a task, and read nothing; `follow` and `entries` do. Other arguments are those of `run_stream`.

        Args:
            task: What to do; None: go on.
            if_busy: What to do when the conversation has a run under way.
            run_id: An id of your own.
            budget: The most that the run may use.
            record: Keep what models and tools answer.
            step: Whether it waits before each turn, the first one included, until `step` is called.

        Returns:
            The id of the run.

        Raises:
            TeamBusyError, TaskError, TeamTaskError: As `run_stream`.
        """
        given = uuid.uuid4().hex if run_id is None else run_id
        order = self._order(given, task, if_busy, budget, record)
        order = order.model_copy(update={"step": step})
        await self._begin(order, run_id is not None, None)
        return order.run_id

    async def follow(
        self, run_id: str, *, output_task_messages: bool = True
    ) -> AsyncGenerator[Said | TaskResult, None]:
        """Read a run from its start: one under way, or one that has ended. Leaving the loop leaves the run alone.

        Raises:
            TeamRunError: It has failed (a RuntimeError).
            TeamRunUnknownError: The conversation never had it, or its events are not kept any more (a LookupError).
            asyncio.CancelledError: It was cancelled.
        """
        reading = self._read(self.entries(run_id), run_id, None, output_task_messages)
        async with aclosing(reading) as items:
            async for item in items:
                yield item

    async def reset(self) -> None:
        """Forget the conversation. It is done when this returns, by all members: their processes have to run.

        Raises:
            TeamNotRunError: A run is under way (a RuntimeError).
            TeamMemberError: A member can't; others may have (a RuntimeError).
        """
        self._check_done(await self.runtime.send_message(ResetConversation(), self._address))

    async def save_state(self) -> Mapping[str, Any]:
        """All that team and members remember of the conversation, as plain data: as it was committed, also during a run."""
        saved: Saved = await self.runtime.send_message(Save(), self._address)
        return saved.state

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned.

        Raises:
            TeamNotRunError: A run is under way (a RuntimeError).
            TeamStateError: It does not fit the team, or a member refuses its part; nothing changed (a ValueError).
            TeamMemberError: A member could not load what it could a moment before; load it again (a RuntimeError).
        """
        self._check_done(await self.runtime.send_message(Load(state=dict(state)), self._address))

    async def status(self) -> Accepted:
        """Id and state of the run under way, who is to speak, and whom of them no process runs.

        Its state is "idle" when there is none, and "input_required" when it works and somebody in it waits for an answer.
        """
        status: Accepted = await self.runtime.send_message(Describe(), self._address)
        if status.state == "working" and await self.questions():
            return status.model_copy(update={"state": "input_required"})
        return status

    async def questions(self) -> list[InputRequest]:
        """The open questions of the conversation, of nested teams as well, the oldest first; `answer` answers them."""
        return await open_questions(self.runtime, self.team, self.conversation)

    async def answer(self, request_id: str, value: Any, *, by: str = "") -> None:
        """Answer a question of the conversation: whoever asked goes on, in whatever process.

        Args:
            request_id: Of an InputRequestedEvent, or of one of `questions`.
            value: The answer, as plain data or a pydantic model; for an approval also as `Approval` reads texts.
            by: Who answers.

        Raises:
            InputRequestUnknownError: There is no such question (a LookupError).
            InputAnsweredError: Somebody was first.
            InputExpiredError, InputWithdrawnError: It has ended.
            NotAllowedToAnswerError: It was put to somebody else (a PermissionError).
            InputValueError: The answer is not what was asked for (a ValueError).
        """
        await self.runtime.inputs.answer(request_id, value, by=by)

    def _order(
        self, run_id: str, task: Task, if_busy: IfBusy, budget: RunBudget | None, record: bool
    ) -> StartRun:
        check_budget(budget)
        check_run_id(run_id)
        outer = run_path()
        with usage_run(run_id):
            path = path_of(self._address, run_id, outer)
        return StartRun(
            run_id=run_id,
            task=list(task_messages(task)),
            if_busy=if_busy,
            path=path,
            budget=budget,
            record=record,
        )

    async def _begin(self, order: StartRun, is_own_id: bool, token: CancellationToken | None) -> None:
        with in_run_path(order.path):
            accepted = await self._start(order, is_own_id, token)
        self._check(accepted, order.run_id)

    async def _start(self, order: StartRun, is_own_id: bool, token: CancellationToken | None) -> Accepted:
        send, name = self.runtime.send_message, f"start:{self._address}:{order.run_id}"
        accepted: Accepted = await send(order, self._address, cancellation_token=token, message_id=name)
        if is_own_id and not accepted.done and accepted.run_id != order.run_id:
            # This may be what was answered to the same id some time ago. The manager knows whether it has begun since.
            accepted = await send(order, self._address)
        return accepted

    async def entries(self, run_id: str, *, after: int = 0) -> AsyncGenerator[RunEntry, None]:
        """What the stream of a run has, that may have ended: what is there, and if it goes on, what comes, without an end.

        Args:
            run_id: Id of the run.
            after: Number of the last entry that is known; 0: none.

        Raises:
            TeamRunUnknownError: The conversation never had it, or its events are not kept any more (a LookupError).
        """
        async with aclosing(_each(self.portions(run_id, after=after))) as entries:
            async for entry in entries:
                yield entry

    async def portions(self, run_id: str, *, after: int = 0) -> AsyncGenerator[list[RunEntry], None]:
        """The same, many entries at once where many are there; an empty list where none came for a while."""
        number, stream = after, stream_of(self._address, run_id)
        async with self.runtime.read_run(stream, after=number, live=False) as events:
            async for portion in events.portions():
                number = portion[-1].number if portion else number
                yield portion
        is_over = (await self.describe(run_id)).state == "idle"
        async with self.runtime.read_run(stream, after=number, live=not is_over) as events:
            coming = events.portions() if is_over else self._coming(events, run_id, number)
            async with aclosing(coming):
                async for portion in coming:
                    yield portion
        raise TeamRunUnknownError(self.team, self.conversation, run_id)

    async def _coming(
        self, events: RunEvents, run_id: str, number: int = 0
    ) -> AsyncGenerator[list[RunEntry], None]:
        """What comes of a run that goes on, without an end, unless the server has lost the run: then what is left of it."""
        absent = Absent(self.team, partial(self._described, run_id))
        try:
            async for portion in events.portions():
                if portion:
                    absent.heard()
                    number = portion[-1].number
                yield portion
                if absent.is_over and not portion:
                    break
        finally:
            await absent.close()
        # Its end may have come since the last look.
        async with self.runtime.read_run(stream_of(self._address, run_id), after=number, live=False) as left:
            async for portion in left.portions():
                yield portion
        raise TeamRunUnknownError(self.team, self.conversation, run_id)

    async def describe(self, run_id: str) -> Accepted:
        """State of a run; "idle" when it is neither under way nor waits for its turn."""
        return await self.runtime.send_message(Describe(run_id=run_id), self._address)

    async def _read(
        self,
        entries: AsyncGenerator[Any, None],
        run_id: str,
        token: CancellationToken | None,
        shows_task: bool,
    ) -> AsyncGenerator[Said | TaskResult, None]:
        reading = RunReading(shows_task)
        cancelling = None if token is None else Cancelling(token, partial(self.abort, run_id))
        if cancelling is not None:
            entries = cancelling.watched(entries)
        try:
            async for entry in entries:
                if isinstance(entry.event, Shown):
                    for message in reading.show(entry.event):
                        yield message
                elif isinstance(entry.event, RunEnded):
                    yield self._result(reading, entry.event, run_id)
                    return
        finally:
            await entries.aclose()
            if cancelling is not None:
                await cancelling.close()

    async def _described(self, run_id: str) -> Accepted:
        """State of a run, and who is missing; of one that waits for another: who is missing in that one."""
        described = await self.describe(run_id)
        if described.state != "queued":
            return described
        ahead: Accepted = await self.runtime.send_message(Describe(), self._address)
        return described.model_copy(update={"missing": ahead.missing})

    def _result(self, reading: RunReading, end: RunEnded, run_id: str) -> TaskResult:
        return self.with_output(reading.ended(end, run_id))

    def with_output(self, result: TaskResult) -> TaskResult:
        """A result with its last message as the object that the team answers with, if it does.

        Raises:
            TeamOutputError: The last message is none (a ValueError).
        """
        return with_output(result, self._output_content_type, self.team)

    def _check(self, accepted: Accepted, run_id: str) -> None:
        if accepted.done:
            return
        if accepted.run_id != run_id:
            raise TeamBusyError(self.team, self.conversation, accepted.run_id)
        raise TeamTaskError(self.team, accepted.problem)


async def _each(portions: AsyncGenerator[list[RunEntry], None]) -> AsyncGenerator[RunEntry, None]:
    async with aclosing(portions):
        async for portion in portions:
            for entry in portion:
                yield entry
