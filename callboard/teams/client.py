"""A conversation of a team on the bus: its runs, their readers, orders to them, and what was recorded."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterable, Iterator, Mapping
from contextlib import aclosing
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from callboard.agents.base import Said, Task, TaskResult, result_of, task_messages
from callboard.broker import AgentId
from callboard.broker.errors import RequestTimeoutError
from callboard.broker.redis.store import RedisStore
from callboard.broker.remote_errors import register_error
from callboard.core.cancellation import CancellationToken
from callboard.core.people import InputRequest
from callboard.messages.chat import BaseChatMessage
from callboard.messages.events import AttemptEndedEvent
from callboard.models.budget import UsageLedger
from callboard.models.types import RunUsage
from callboard.runtime.execution import in_run_path, run_path, usage_run
from callboard.runtime.steps import Take
from callboard.testing.cassette import Cassette, CassetteError, said_in

from .budget import RunBudget, check_budget
from .errors import (
    RunCancelledError,
    RunUnknownError,
    TeamBusyError,
    TeamForkError,
    TeamMemberError,
    TeamNotRunError,
    TeamStateError,
    task_refused,
)
from .fork import marks_in
from .listing import stored_state
from .loop import is_kept, takes_of
from .member import open_questions
from .notices import Hearer, RunStart, awaited_id, name_of, wait_for_end
from .outcome import Absent, Cancelling, error_of, with_output
from .protocol import (
    ANSWERS,
    Accepted,
    Born,
    ControlRun,
    Describe,
    Fork,
    IfBusy,
    LoadConversation,
    ResetConversation,
    RunEnded,
    SaveConversation,
    Saved,
    Shown,
    StartRun,
    check_conversation,
    check_run_id,
    path_of,
    stream_of,
)
from .states import TurnMark

if TYPE_CHECKING:
    from pydantic import BaseModel

    from callboard.core.context import MessageContext
    from callboard.core.protocol import AgentRuntime
    from callboard.runtime.run_history import RunEntry, RunEvents
    from callboard.runtime.runtime import RedisAgentRuntime


SAVED_AGAIN: Final = 0.02  # seconds until a state is asked for again that a turn has to end for


class TeamClient:
    """One conversation of a team whose members run anywhere.

    A run goes on by itself: who stops reading it can read it again by its id, from any process.

    Args:
        runtime: Reaches the team; in a handler `self.runtime`.
        team: Its agent type, which is its name.
        conversation: Id of the conversation, such as a customer's or a ticket's; the same one goes on with it.
        output_content_type: What a run's last message is read as; None: it is not.

    Raises:
        SettingValueError: The id of the conversation is empty, or one that is taken (a ValueError).
    """

    def __init__(
        self,
        runtime: AgentRuntime,
        team: str,
        conversation: str = "default",
        output_content_type: type[BaseModel] | None = None,
    ) -> None:
        from callboard.runtime.runtime import on_bus  # loaded already where there is a runtime

        check_conversation(conversation)
        self.runtime: RedisAgentRuntime = on_bus(runtime)
        self.team = team
        self.conversation = conversation
        self._output_content_type = output_content_type
        self._address = AgentId(team, conversation)
        self.runtime.registry.register(*ANSWERS)
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
            AgentSettingError, TeamDeclarationError: The task is none, or the strategy refuses it (a ValueError).
            TeamRunError: A member, the strategy or a condition failed for good (a RuntimeError).
            TeamOutputError: The last message is not what the team was to answer with (a ValueError).
            RunUnknownError: The server has lost the run with its data (a LookupError).
            asyncio.CancelledError: The token was cancelled.
            RunCancelledError: The run was cancelled by somebody else (a RuntimeError).
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
        on_end: Hearer | None = None,
    ) -> str:
        """Begin to carry out a task, and read nothing; `follow` and `entries` do. Other arguments are those of `run_stream`.

        Args:
            task: What to do; None: go on.
            if_busy: What to do when the conversation has a run under way.
            run_id: An id of your own.
            budget: The most that the run may use.
            record: Keep what models and tools answer.
            step: Whether it waits before each turn, the first one included, until `step` is called.
            on_end: Who gets a `RunNotice` when it has ended, in whatever way, and when it asks a person: an agent, such as
                `self.id`, or a topic. Once each, whatever dies; that it has ended leaves with the commit that ends it.

        Returns:
            The id of the run.

        Raises:
            TeamBusyError, AgentSettingError, TeamDeclarationError: As `run_stream`.
            SettingValueError: `on_end` is neither (a ValueError).
        """
        given = uuid.uuid4().hex if run_id is None else run_id
        order = self._order(given, task, if_busy, budget, record)
        order = order.model_copy(update={"step": step, "hearer": name_of(on_end)})
        await self._begin(order, run_id is not None, None)
        return order.run_id

    async def run_within(
        self,
        ctx: MessageContext,
        *,
        task: Task = None,
        run_id: str | None = None,
        if_busy: Literal["enqueue", "interrupt"] = "enqueue",
        budget: RunBudget | None = None,
        record: bool = False,
        output_task_messages: bool = True,
    ) -> TaskResult:
        """Carry out a task for a handler, which waits for the end without a process, as `ctx.ask` waits for an answer.

        Args:
            ctx: The context of the handler.
            task: What to do; None: go on.
            run_id: An id of your own. None: one for this task in this handler; the same task again is the same run.
            if_busy: What to do when the conversation has a run under way.
            budget: The most that the run may use.
            record: Keep what models and tools answer.
            output_task_messages: Whether the task is in the result, too.

        Raises:
            TeamRunError: It has failed, or can't begin (a RuntimeError).
            RunCancelledError: It was cancelled (a RuntimeError).
            CannotAskError: There is no handler that could wait; see `MessageContext.ask`.
        """
        messages = task_messages(task)
        given = awaited_id(ctx.message_id, self._address, messages) if run_id is None else run_id
        order = self._order(given, messages or None, if_busy, budget, record)
        await wait_for_end(ctx, RunStart(self.runtime, self._address, order))
        return await result_of(self.follow(given, output_task_messages=output_task_messages), self.team)

    async def follow(
        self, run_id: str, *, output_task_messages: bool = True
    ) -> AsyncGenerator[Said | TaskResult, None]:
        """Read a run from its start: one under way, or one that has ended. Leaving the loop leaves the run alone.

        Raises:
            TeamRunError: It has failed (a RuntimeError).
            RunUnknownError: The conversation never had it, or its events are not kept any more (a LookupError).
            RunCancelledError: It was cancelled (a RuntimeError).
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
        """All that team and members remember of the conversation, as plain data.

        It is one moment of it, also during a run: that before the turns under way, with the task.

        Raises:
            TeamNotRunError: What a member was before its turn is not kept, and the turn does not end (a RuntimeError).
        """
        began = time.monotonic()
        while True:
            saved: Saved = await self.runtime.send_message(SaveConversation(), self._address)
            if not saved.problem:
                return saved.state
            if time.monotonic() - began > self.runtime.settings.request_timeout:
                raise TeamNotRunError(self.team, f"can't be saved during this turn: {saved.problem}")
            await asyncio.sleep(SAVED_AGAIN)

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned.

        Raises:
            TeamNotRunError: A run is under way (a RuntimeError).
            TeamStateError: It does not fit the team, or a member refuses its part; nothing changed (a ValueError).
            TeamMemberError: A member could not load what it could a moment before; load it again (a RuntimeError).
        """
        self._check_done(await self.runtime.send_message(LoadConversation(state=dict(state)), self._address))

    # Orders to runs

    async def pause(self, *, now: bool = False, run_id: str = "") -> bool:
        """Let no member begin to speak until `resume`; it holds across restarts of everything.

        Args:
            now: Interrupt who is speaking as well. It begins its turn again after `resume`, and what it had recorded,
                such as answers of models and tools, is not made again.
            run_id: The run that is meant; "": the one under way.

        Returns:
            False when it was paused already.

        Raises:
            TeamNotRunError: No run is under way (a RuntimeError).
        """
        return await self._control(ControlRun(what="pause", now=now, run_id=run_id))

    async def resume(self, *, run_id: str = "") -> bool:
        """Go on after `pause`; False when it was not paused."""
        return await self._control(ControlRun(what="resume", run_id=run_id))

    async def step(self, *, run_id: str = "", turn: int = 0, on: bool = False) -> bool:
        """Let the next turn begin, of a run that was started with `step=True`.

        Args:
            run_id: The run that is meant; "": the one under way.
            turn: Number of the turn, of a `RunHeld` entry: a call that comes late begins no other; 0: whichever waits.
            on: Do not wait before the turns that follow, either.

        Returns:
            False when nothing changed: it does not wait, or another turn does; or it is paused, and goes on with `resume`.

        Raises:
            TeamNotRunError: No run is under way (a RuntimeError).
        """
        return await self._control(ControlRun(what="step", now=on, run_id=run_id, turn=turn))

    async def stop(self) -> bool:
        """End the run after the turn under way, as an ExternalTermination does."""
        return await self._control(ControlRun(what="stop"))

    async def abort(self, run_id: str = "") -> bool:
        """Cancel a run now. What was said is kept; who is speaking is not heard any more.

        Args:
            run_id: The run: the one under way, or one that waits for its turn; "": the one under way.

        Raises:
            TeamNotRunError: There is no such run (a RuntimeError).
            RequestTimeoutError: The manager is away. A run that `run_id` names is cancelled as soon as it is back.
        """
        order = ControlRun(what="abort", run_id=run_id)
        try:
            return await self._control(order)
        except RequestTimeoutError:
            # A request that nobody waits for any more is not begun: the run would go on when its manager is back, and use
            # what it costs, although it was cancelled.
            # guard: a run that was cancelled while its manager was away does not go on
            if run_id:
                await self.runtime.tell(order, self._address)
            raise

    async def _control(self, order: ControlRun) -> bool:
        accepted = await self.runtime.send_message(order, self._address)
        self._check_done(accepted)
        return accepted.done

    def _check_done(self, accepted: Accepted) -> None:
        if accepted.problem:
            raise TeamNotRunError(self.team, f"can't do that: {accepted.problem}")

    # How it stands, and what there was

    async def status(self) -> Accepted:
        """Id and state of the run under way, who is to speak, and whom of them no process runs.

        Its state is "idle" when there is none, and "input_required" when it works and a question in it is open.
        """
        status: Accepted = await self.runtime.send_message(Describe(), self._address)
        if status.state == "working" and await self.questions():
            return status.model_copy(update={"state": "input_required"})
        return status

    async def questions(self) -> list[InputRequest]:
        """The open questions of the conversation, of nested teams as well, the oldest first; `answer` answers them."""
        return await open_questions(self.runtime, self.team, self.conversation)

    async def answer(self, request_id: str, value: Any, *, by: str = "") -> None:
        """Answer a question of the conversation: the agent that asked goes on, in whatever process.

        Args:
            request_id: Of an InputRequestedEvent, or of one of `questions`.
            value: The answer, as plain data or a pydantic model; for an approval also as `Approval` reads texts.
            by: Who answers.

        Raises:
            InputRequestUnknownError: There is no such question (a LookupError).
            InputAnsweredError: Another answer was first.
            InputExpiredError, InputWithdrawnError: It has ended.
            NotAllowedToAnswerError: It was put to other people (a PermissionError).
            InputValueError: The answer is not what was asked for (a ValueError).
        """
        await self.runtime.inputs.answer(request_id, value, by=by)

    def beside(self, conversation: str) -> Self:
        """Another conversation of the team."""
        other = copy(self)
        other.conversation, other._address = conversation, AgentId(self.team, conversation)
        return other

    async def usage(self, run_id: str) -> RunUsage:
        """The use of models by a run until now, by agent and by model: its members, its strategy, nested teams.

        It is kept as long as `usage_seconds` of the models' settings (90 days), so for longer than the run itself.

        Args:
            run_id: Id of the run; one that has used nothing, or that there never was, has used nothing.
        """
        await self.runtime.open()
        ledger = UsageLedger(RedisStore(self.runtime.transport.admin))
        return await ledger.of_run(stream_of(self._address, run_id))

    async def export(self, run_id: str) -> Cassette:
        """A run as a cassette, from which `callboard.testing.replay` replays it without a network; waits for its end.

        Args:
            run_id: Id of a run that was started with `record=True`.

        Raises:
            CassetteError: It was not recorded, or not completely (a ValueError).
            RunUnknownError: The conversation never had it, or its events are not kept any more (a LookupError).
        """
        async with aclosing(self.entries(run_id)) as entries:
            return await cassette_of(self.runtime, self.team, stream_of(self._address, run_id), entries)

    async def turns(self) -> list[TurnMark]:
        """The turns after which the conversation can be forked, oldest first: number, run, and who spoke."""
        await self.runtime.open()
        stored = await self.runtime.transport.load_state(self.team, self.conversation)
        return marks_in(stored)

    async def fork(self, conversation: str, *, at: int | None = None, run_id: str = "") -> Self:
        """Make a new conversation that has everything up to a turn: what was said, and what everybody remembers.

        This one goes on untouched, also when a run of it is under way. In the new one no run is: its next one goes on, with
        a task or without, and nothing that was answered before is paid for again. What an agent keeps beside `save_state`,
        and what it did outside, is not forked.

        Args:
            conversation: Id of the new one, in which nothing was said yet.
            at: Number of the turn, one of `turns()`; None: see `run_id`.
            run_id: After the last turn of this run; "": after the last turn that has ended.

        Returns:
            The new conversation.

        Raises:
            TeamForkError: It can't be forked there, or there is a conversation of that id (a ValueError).
            SettingValueError: There can't be a conversation of that id (a ValueError).
        """
        check_conversation(conversation)
        fork_id = f"fork {uuid.uuid4().hex}"
        order = Fork(fork_id=fork_id, conversation=conversation, turn=at, run_id=run_id)
        accepted: Accepted = await self.runtime.send_message(order, self._address, claim_check=True)
        if accepted.part is not None:
            born, other = Born(fork_id=fork_id, part=accepted.part), AgentId(self.team, conversation)
            accepted = await self.runtime.send_message(born, other, claim_check=True)
        if accepted.problem:
            where = "" if at is None else f"after turn {at}"
            raise TeamForkError(self.team, self.conversation, where, accepted.problem)
        return self.beside(conversation)

    # Beginning and reading

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
        """The entries of a run, which may have ended: what is there, and if it goes on, what comes, up to its end.

        Args:
            run_id: Id of the run.
            after: Number of the last entry that is known; 0: none.

        Raises:
            RunUnknownError: The conversation never had it, or its events are not kept any more (a LookupError).
        """
        async with aclosing(_each(self.portions(run_id, after=after))) as entries:
            async for entry in entries:
                yield entry
                if isinstance(entry.event, RunEnded):
                    return

    async def portions(self, run_id: str, *, after: int = 0) -> AsyncGenerator[list[RunEntry], None]:
        """The same, many entries at once where many are there; an empty list where none came for a while. It has no end."""
        number, stream = after, stream_of(self._address, run_id)
        async with self.runtime.read_run(stream, after=number, live=False) as events:
            async for portion in events.portions():
                number = portion[-1].number if portion else number
                yield portion
        is_over = await stored_state(self.runtime, self._address, run_id) == "idle"
        async with self.runtime.read_run(stream, after=number, live=not is_over) as events:
            coming = events.portions() if is_over else self._coming(events, run_id, number)
            async with aclosing(coming):
                async for portion in coming:
                    yield portion
        raise self._unknown(run_id)

    async def _coming(
        self, events: RunEvents, run_id: str, number: int = 0
    ) -> AsyncGenerator[list[RunEntry], None]:
        """The entries that come of a run that goes on, without an end; where the server has lost it, what is left."""
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
        raise self._unknown(run_id)

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
        reading = RunView(shows_task)
        cancelling = None if token is None else Cancelling(token, partial(self.abort, run_id))
        if cancelling is not None:
            entries = cancelling.watched(entries)
        try:
            async for entry in entries:
                if isinstance(entry.event, Shown):
                    for message in reading.show(entry.event):
                        yield message
                elif isinstance(entry.event, RunEnded):
                    # Whoever else cancels the run, who awaits it is not being cancelled: a handler that took this for its
                    # own end would be told nothing, and be tried again.
                    if entry.event.state == "cancelled" and token is not None and token.is_cancelled():
                        raise asyncio.CancelledError("the token was cancelled")
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

    def _result(self, reading: RunView, end: RunEnded, run_id: str) -> TaskResult:
        return self.with_output(reading.ended(end, run_id))

    def with_output(self, result: TaskResult) -> TaskResult:
        """A result with its last message as the object that the team answers with, if it does.

        Raises:
            TeamOutputError: The last message is none (a ValueError).
        """
        return with_output(result, self._output_content_type, self.team)

    def _unknown(self, run_id: str) -> RunUnknownError:
        return RunUnknownError(
            run_id,
            f"the team {self.team!r} has no run {run_id!r} in the conversation {self.conversation!r}, or not any more: "
            f"events are kept for the time of `run_retention`, and a server that loses data loses runs. If it was begun a "
            f"moment ago, begin it again.",
        )

    def _check(self, accepted: Accepted, run_id: str) -> None:
        if accepted.done:
            return
        if accepted.run_id != run_id:
            raise TeamBusyError(self.team, self.conversation, accepted.run_id)
        raise task_refused(self.team, accepted.problem)


async def _each(portions: AsyncGenerator[list[RunEntry], None]) -> AsyncGenerator[RunEntry, None]:
    async with aclosing(portions):
        async for portion in portions:
            for entry in portion:
                yield entry


GOES_ON: Final = "goes on with the answer, and says again what it said before"


@dataclass(slots=True)
class _Attempt:
    """Messages that were shown of one attempt at a turn.

    Attributes:
        name: Of the attempt.
        source: Who speaks.
        ids: Of the messages that were shown.
    """

    name: str
    source: str
    ids: set[str] = field(default_factory=set)


async def followed(entries: AsyncIterable[RunEntry], run_id: str) -> AsyncGenerator[Said | TaskResult, None]:
    """The messages of a run, from its entries, and at last its result.

    Raises:
        TeamRunError: It has failed (a RuntimeError).
        RunCancelledError: It was cancelled (a RuntimeError).
    """
    reading = RunView(shows_task=True)
    async for entry in entries:
        if isinstance(entry.event, Shown):
            for message in reading.show(entry.event):
                yield message
        elif isinstance(entry.event, RunEnded):
            yield reading.ended(entry.event, run_id)
            return


class RunView:
    """Puts together what a run's stream has.

    Everything is shown once. When the process dies in which a member was speaking, another attempt at the turn begins: an
    AttemptEndedEvent says that what was shown of the first one is void.

    Args:
        shows_task: Whether the task is shown, and part of the result.
    """

    def __init__(self, shows_task: bool) -> None:
        self._shows_task = shows_task
        self._attempts: dict[tuple[int, ...], _Attempt] = {}
        self._kept: list[Said] = []
        self._asides: set[str] = set()  # ids
        self._task_ids: set[str] = set()
        self._asking: set[tuple[int, ...]] = set()  # turns that have asked a person

    def show(self, shown: Shown) -> Iterator[Said]:
        """The messages that are new in an entry."""
        if shown.is_aside:
            yield from self._aside(shown)
            return
        if shown.is_task:
            yield from self._task(shown)
            return
        attempt = self._attempts.get(shown.turn)
        # Drafts of a process that died are in the stream before those of the attempt that took its place. A reader that
        # kept both would show the beginning of one answer and the whole of another as one text.
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

    def _task(self, shown: Shown) -> Iterator[Said]:
        for message in shown.messages if self._shows_task else ():
            # It may have been a draft, which a strategy that lets readers see how it chooses shows ahead of that.
            if message.id not in self._task_ids:
                self._task_ids.add(message.id)
                self._kept.append(message)
                yield message

    def _aside(self, shown: Shown) -> Iterator[Said]:
        for message in shown.messages:
            # A question is written with its first attempt, its end by each attempt that goes on with the answer: the reader
            # would see a question answered as often as a process died behind it.
            # guard: what several attempts have written is shown once
            if message.id not in self._asides:
                self._asides.add(message.id)
                self._asking.add(shown.turn)
                yield message

    def result(self, end: RunEnded) -> TaskResult:
        """The result of the run."""
        return TaskResult(messages=self._kept, stop_reason=end.stop_reason)

    def ended(self, end: RunEnded, run_id: str) -> TaskResult:
        """The same, of a run that was completed.

        Raises:
            TeamRunError: It has failed (a RuntimeError).
            RunCancelledError: It was cancelled (a RuntimeError).
        """
        if end.error is not None:
            raise error_of(end.error)
        if end.state == "cancelled":
            raise RunCancelledError(run_id)
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


async def cassette_of(
    runtime: RedisAgentRuntime, team: str, stream: str, entries: AsyncGenerator[Any, None]
) -> Cassette:
    """A cassette made of the two streams of a run.

    Args:
        runtime: Reads them.
        team: Name of the team.
        stream: Of the run.
        entries: Those of the run, from its start to its end.

    Raises:
        CassetteError: The run was not recorded, or not completely (a ValueError).
    """
    task, reading = "", RunView(shows_task=True)
    async for entry in entries:
        if isinstance(entry.event, Shown):
            list(reading.show(entry.event))
            if entry.event.is_task:
                texts = [one.to_text() for one in entry.event.messages if isinstance(one, BaseChatMessage)]
                task = "\n".join(texts)
        elif isinstance(entry.event, RunEnded):
            result = reading.result(entry.event)
            takes = await _takes_of(runtime, stream)  # of the whole run: it has ended
            return Cassette(team, task, takes, said_in(result.messages), result.stop_reason)
    raise CassetteError(f"the run {stream!r} has not ended")


async def _takes_of(runtime: RedisAgentRuntime, stream: str) -> list[Take]:
    runtime.registry.register(Take)
    async with runtime.read_run(takes_of(stream), live=False) as found:
        takes: list[Take] = [entry.event async for entry in found]
    if not takes:
        raise CassetteError(f"the run {stream!r} was not recorded; start it with record=True")
    lost = [take.agent for take in takes if take.answer is None]
    if lost:
        raise CassetteError(f"an answer to {lost[0]!r} was larger than max_payload, and was not recorded")
    return takes
