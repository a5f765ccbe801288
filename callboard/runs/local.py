"""A run in this process: it goes on by itself, its questions are answered here, and its events are kept."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeVar
from uuid import uuid4
from weakref import WeakValueDictionary

from pydantic import Field

from callboard.agents.base import Said, Task, TaskResult
from callboard.broker.redis.client.questions import InputStatus
from callboard.core.cancellation import CancellationToken
from callboard.core.people import NO_DEFAULT, Question, as_json, ask_person, asking_by
from callboard.errors import (
    InputAnsweredError,
    InputError,
    InputExpiredError,
    InputRequestUnknownError,
    InputWithdrawnError,
    NotAllowedToAnswerError,
)
from callboard.groupchat.events import ChatEvent, IOStream
from callboard.memory.contexts import Conversation
from callboard.messages.chat import BaseAgentEvent, BaseChatMessage
from callboard.models.budget import UsageLedger, counted_here
from callboard.models.stores import LocalStore
from callboard.models.types import RunUsage
from callboard.runtime.execution import speaking_as, usage_run
from callboard.runtime.steps import running_context
from callboard.teams.budget import RunBudget
from callboard.teams.errors import TeamRunError
from callboard.teams.group_chat import BaseGroupChat
from callboard.teams.loop import Choice, Floor, SpeakerSelection, is_kept

from .errors import RunCancelledError
from .events import CompletedEvent, ErrorEvent, Event, InputResponseEvent, SystemEvent
from .projection import Projection
from .response import RunSource, RunState, without_team


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
        self._store = LocalStore()
        self._ledger = UsageLedger(self._store)
        self.loop = asyncio.get_running_loop()
        self._running = asyncio.create_task(self._run(task), name=f"run {run_id}")
        self._running.add_done_callback(self._settle)
        _runs[run_id] = self
        # The loop holds a task weakly. One that waits for an answer, a step or `resume` is held by nothing but what it waits
        # for, and that by the run: dropped together they are collected, and the run with them, as if it had never begun.
        _under_way.add(self)

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
        except Exception as error:  # noqa: BLE001 - it is raised where the result is asked for
            self._error = error
            self._fail(error)

    def _around(self) -> Iterator[AbstractContextManager[Any]]:
        """The scope of the run, for whatever it calls."""
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
        _under_way.discard(self)
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
            choices=question.choices or (),
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
        """Its result; waits for the end."""
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
        """The use of its models until now."""
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
        """Let no agent begin to speak."""
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


_under_way: set[ProcessRun] = set()

# By id, until they end, and then as long as the program holds them: for `previous_run`.
_runs: WeakValueDictionary[str, ProcessRun] = WeakValueDictionary()


def run_here(run_id: str) -> ProcessRun | None:
    """The run of this process with an id; None: there is none, or it has ended and the program does not hold it any more."""
    found = _runs.get(run_id)
    return None if found is None or found.loop.is_closed() else found


T = TypeVar("T")


class Steps:
    """Holds a run of this process back between turns."""

    def __init__(self) -> None:
        self._wanted = asyncio.Event()
        self._is_over = False

    def hold(self) -> None:
        """There is something new to read."""
        if not self._is_over:
            self._wanted.clear()

    def stop(self) -> None:
        """It does not wait before turns any more: its end is waited for."""
        self._is_over = True
        self._wanted.set()

    def allow(self) -> bool:
        """The next turn may begin, although there is no reader; False when it may already."""
        is_new = not self._wanted.is_set()
        self._wanted.set()
        return is_new

    async def wanted(self, more: Awaitable[T]) -> T:
        """A reader has seen everything, and waits for more."""
        self._wanted.set()
        try:
            return await more
        finally:
            self.hold()

    async def take(self, floor: Floor) -> None:
        """Wait until everything so far was read, and more is wanted.

        Args:
            floor: Lets the reader's side know how far it is.
        """
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await floor.show(StepTaken(source=floor.team, reached=reached))
        await reached
        await self._wanted.wait()


class SteppedSelection(SpeakerSelection):
    """Chooses as another one does, but only when a reader wants to see more.

    Args:
        selection: The other one.
        steps: Of the run.
    """

    def __init__(self, selection: SpeakerSelection, steps: Steps) -> None:
        self._selection = selection
        self._steps = steps

    async def select(self, floor: Floor) -> Choice:
        """Wait, and choose."""
        await self._steps.take(floor)
        return await self._selection.select(floor)

    async def after_round(self, floor: Floor) -> str | None:
        """See SpeakerSelection."""
        return await self._selection.after_round(floor)

    async def check(self, messages: Sequence[BaseChatMessage] | None, floor: Floor) -> None:
        """See SpeakerSelection."""
        await self._selection.check(messages, floor)

    async def reset(self) -> None:
        """See SpeakerSelection."""
        await self._selection.reset()

    async def save_state(self) -> Mapping[str, Any]:
        """See SpeakerSelection."""
        return await self._selection.save_state()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """See SpeakerSelection."""
        await self._selection.load_state(state)

    def keep_context_in(self, messages: Conversation) -> None:
        """See SpeakerSelection."""
        self._selection.keep_context_in(messages)


class StepTaken(BaseAgentEvent):
    """Everything before it was handed to the run; readers never see it."""

    type: Literal["callboard.StepTaken"] = "callboard.StepTaken"
    reached: Any = Field(exclude=True)

    def to_text(self) -> str:
        """Nothing."""
        return ""


def stepped(team: BaseGroupChat, steps: Steps) -> None:
    """Hold the next run of a team back between its turns; before its first one."""
    make = team.new_selection
    setattr(team, "new_selection", lambda: SteppedSelection(make(), steps))  # noqa: B010 - of this team alone


@dataclass(slots=True)
class ProcessQuestion:
    """A question of a run.

    Attributes:
        id: Its id.
        question: What is asked.
        expires: Until when it can be answered; None: always.
        answer: The answer, once there is one.
        status: How it stands.
        by: Who answered it; "": it was not answered, or not said.
        ended: When it was over: Unix time in seconds.
    """

    id: str
    question: Question
    expires: datetime | None
    answer: asyncio.Future[Any]
    status: InputStatus = InputStatus.OPEN
    by: str = ""
    ended: float = 0.0

    @property
    def details(self) -> dict[str, Any]:
        """The details that are shown with it."""
        shown: dict[str, Any] = json.loads(self.question.details_json or "{}")
        return shown


class ProcessQuestions:
    """The questions of one run. What is asked, and what is an answer, is as on the bus.

    Args:
        begun: Called with each question when it is asked.
        ended: Called when it is over, with the answer as plain data.
    """

    def __init__(
        self, begun: Callable[[ProcessQuestion], None], ended: Callable[[ProcessQuestion, Any], None]
    ) -> None:
        self._begun = begun
        self._ended = ended
        self._asked: dict[str, ProcessQuestion] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether one of them waits for its answer."""
        return any(asked.status is InputStatus.OPEN for asked in self._asked.values())

    async def ask(self, question: Question) -> Any:
        """Ask, and wait for the answer.

        Raises:
            InputExpiredError: The time is over, and there is no default (a TimeoutError).
            DeclarationError: It can't be asked like that (a ValueError).
        """
        asked_for, timeout = question.checked(), question.timeout
        expires = None if timeout is None else datetime.now(UTC) + timedelta(seconds=timeout)
        await asyncio.sleep(0)  # what was shown before comes before it
        asked = ProcessQuestion(uuid4().hex, asked_for, expires, asyncio.get_running_loop().create_future())
        self._asked[asked.id] = asked
        self._begun(asked)
        try:
            async with asyncio.timeout(timeout):
                return await asked.answer
        except TimeoutError:
            self._end(asked, InputStatus.EXPIRED)
            if asked_for.default_json is None:
                raise InputExpiredError(asked.id) from None
            return asked_for.read(asked.id, asked_for.default_json)
        except asyncio.CancelledError:
            self._end(asked, InputStatus.WITHDRAWN)
            raise

    def answer(self, input_id: str, value: Any, by: str = "") -> None:
        """Answer; the first answer counts.

        Raises:
            InputRequestUnknownError: There is no such question (a LookupError).
            InputAnsweredError: It was answered before.
            InputExpiredError: Its time is over (a TimeoutError).
            InputWithdrawnError: It is not waited for any more.
            NotAllowedToAnswerError: It was put to other people (a PermissionError).
            InputValueError: It can't be answered with this (a ValueError); it stays open.
        """
        asked = self._asked.get(input_id)
        if asked is None:
            raise InputRequestUnknownError(input_id)
        # Two answers may come in one moment, from a console and from a program. The agent goes on with the first: a second
        # one that was taken would be confirmed to its sender, and heard by no agent.
        # guard: the first answer counts
        if asked.status is not InputStatus.OPEN:
            raise _over(asked)
        if asked.question.to and by not in asked.question.to:
            raise NotAllowedToAnswerError(input_id, by, asked.question.to)
        text = as_json(value)
        read = asked.question.check(input_id, text)
        self._end(asked, InputStatus.ANSWERED, json.loads(text), by)
        asked.answer.set_result(read)

    def _end(self, asked: ProcessQuestion, status: InputStatus, value: Any = None, by: str = "") -> None:
        if asked.status is InputStatus.OPEN:
            asked.status, asked.by, asked.ended = status, by, time.time()
            self._ended(asked, value)


def _over(asked: ProcessQuestion) -> InputError:
    if asked.status is InputStatus.ANSWERED:
        return InputAnsweredError(asked.id, asked.by, asked.ended)
    return (InputExpiredError if asked.status is InputStatus.EXPIRED else InputWithdrawnError)(asked.id)


async def ask_user(
    prompt: str,
    *,
    choices: Sequence[str] | None = None,
    answer_type: Any = str,
    timeout: float | None = None,
    default: Any = ...,
    **details: Any,
) -> Any:
    """Ask the people who follow the run, from a function that one of its agents calls.

    In this process the function waits for the answer. On the bus it ends, and is called again when there is one
    (`MessageContext.ask`).

    Args:
        prompt: The question.
        choices: What may be answered; None: anything that fits `answer_type`.
        answer_type: What an answer is read as; with `Annotated` and a validator of pydantic it can be checked further.
        timeout: Seconds until it is over; None: never.
        default: The answer when it is over; ...: none, and that is an error.
        **details: More about it, as plain data.

    Raises:
        CannotAskError: There is no run here (a RuntimeError).
        InputExpiredError: The time is over (a TimeoutError).
    """
    question = Question(
        text=prompt,
        name=prompt,
        choices=None if choices is None else tuple(choices),
        answer_type=answer_type,
        timeout=timeout,
        default=NO_DEFAULT if default is ... else default,
        details=details,
    )
    return await ask_person(question, running_context())


class RunStream(IOStream):
    """Takes the place of the terminal.

    Args:
        ask: Asks a question of the run.
        show: Shows a text to its readers.
    """

    def __init__(self, ask: Callable[[Question], Awaitable[Any]], show: Callable[[str], None]) -> None:
        self._ask = ask
        self._show = show

    def send(self, event: ChatEvent) -> None:
        """Show an event."""
        self._show(event.text)

    async def input(self, prompt: str) -> str:
        """Ask the people who follow the run."""
        text = prompt or "?"  # a question has a text
        return str(await self._ask(Question(text=text, name=text)))


COMMON: Final = ("message_thread", "current_turn", "callboard")
"""The keys of a saved conversation, whatever strategy chose its speakers."""


async def continued(team: BaseGroupChat, previous: ProcessRun) -> None:
    """Let a team know what was said in an earlier run of this process.

    Members of both remember what they remembered; others hear all that was said.

    Args:
        team: It has not run yet.
        previous: The earlier run; one that is under way ends first.

    Raises:
        TeamStateError: The teams have nothing in common (a ValueError).
    """
    await previous.wait()
    saved = dict(await previous.team.save_state())
    blank = dict(await team.save_state())
    states, fresh = dict(saved["agent_states"]), dict(blank["agent_states"])
    manager = dict(states.pop(previous.team.plan.name))
    # How this run ends is its own matter.
    manager["callboard"] = {**manager["callboard"], "termination": None}
    manager["current_turn"] = 0
    own = {name: states.get(name, fresh[name]) for name in fresh if name != team.plan.name}
    strategy = dict(fresh[team.plan.name])
    same = strategy.get("type") == manager.get("type")
    merged = {**strategy, **(manager if same else {key: manager[key] for key in COMMON})}
    await team.load_state({**saved, "agent_states": {**own, team.plan.name: merged}})
