"""The steps of a run on the bus: its limits, its strategy's questions, what readers see, and marks of turns.

When the strategy asks a person, the manager does not wait for the answer: orders have to reach it meanwhile. Another
agent of its type asks, with a key of its own, and tells it what came of the question; then the strategy chooses anew,
and has the answer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import coroutine
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, cast

from pydantic import WithJsonSchema

from callboard.agents.base import Said
from callboard.broker import AgentId, BrokerSettings
from callboard.broker.errors import is_outage
from callboard.broker.redis.client.questions import InputStatus
from callboard.core.agent import Messaging
from callboard.core.cancellation import UNSET
from callboard.core.context import ContextScope, MessageContext
from callboard.core.people import OnInput, Question, as_json, asking_by
from callboard.errors import InputExpiredError, InputWithdrawnError
from callboard.messages.chat import BaseAgentEvent, BaseChatMessage
from callboard.messages.events import AnyMessage, OutageEvent
from callboard.runtime.effects import noting
from callboard.runtime.execution import in_run_path
from callboard.runtime.steps import taping

from .budget import Overspent, budget_error, set_limits, time_overspent, turns_overspent
from .errors import TeamNotRunError
from .fork import mark_turn
from .loop import Choice, TurnLoop, is_kept, reached, tape_for, write_takes
from .member import Drafts, ShownQuestions, tag_of
from .notices import Hearers, tell_end
from .outages import outage_after
from .outcome import answer_id, failure_of, unborn_text
from .protocol import (
    Act,
    Answer,
    Consult,
    Consulted,
    CurrentRun,
    Forget,
    ManagerState,
    RunBegan,
    RunEnded,
    RunHeld,
    Shown,
    Speak,
    StartRun,
    Told,
    TurnFailed,
    asking_address,
    asking_id,
    consulting_id,
    member_address,
    parts_of,
    path_of,
    stream_of,
    tell_all_of,
)

if TYPE_CHECKING:
    from callboard.core.protocol import AgentRuntime
    from callboard.runtime.control import Control
    from callboard.runtime.runtime import RedisAgentRuntime


T = TypeVar("T")

STOPPED: Final = "External termination requested"


class RunSteps:
    """The step that the runs of one conversation take because of one message.

    Args:
        manager: Tells members and larger teams what they are to know.
        state: What is remembered.
        loop: The turn loop.
        teams: Names of the members that are teams.
        settings: How long strategy and condition may take, and how far back a fork reaches.
        heard_by: Agent types that hear of every run that a client begins.

    Attributes:
        is_undone: Whether the strategy has to be as it was before it chose: its loop is not to be used any more.
    """

    def __init__(
        self,
        manager: Messaging,
        state: ManagerState,
        loop: TurnLoop,
        teams: frozenset[str],
        settings: BrokerSettings,
        heard_by: Sequence[str] = (),
    ) -> None:
        self._manager = manager
        self._state = state
        self._loop = loop
        self._teams = teams
        self._settings = settings
        self._heard_by = tuple(heard_by)
        self._acts: list[tuple[Literal["cancel", "pause", "resume"], str]] = []
        self._consults = Consults(manager, self._cancel, loop.plan.name)
        self.is_undone = False
        self._before = state.context.savepoint()
        self.stage = Stage(manager.runtime, manager.id, loop.plan.name)

    # A run begins, goes on, ends

    async def begin(self, run: CurrentRun, task: Sequence[Said]) -> str:
        """A run begins.

        Returns:
            Why it can't, in the words of the strategy; "": it has begun.
        """
        # A part that a member could not take over is a dead letter. A run that began before it is replayed would let that
        # member speak without its past, and the replay would come too late: one that has spoken takes no part over.
        # guard: a fork that is not whole does not go on
        if self._state.unborn:
            return unborn_text(self._state.unborn)
        messages = [message for message in task if isinstance(message, BaseChatMessage)]
        run.first = len(self._state.thread) + len(messages)
        self._loop.show = lambda event: self.stage.show(run, event)
        try:
            with in_run_path(run.path):
                await self._in_time(self._loop.check(messages or None))
        except (ValueError, TeamNotRunError) as error:
            return str(error)
        self._state.run = run
        run.budget = run.budget or self._loop.plan.budget
        if run.budget is not None:
            run.timer = await set_limits(self._manager, run.budget, run.run_id, run.path)
        self.stage.task(run, messages)
        await self._go_on(run, self._loop.start(messages or None))
        await reached("run begins")
        return ""

    async def hear(self, run: CurrentRun | None, member: str, answer: Answer) -> None:
        """A member has spoken."""
        speaking = self._state.speaking.get(member)
        if run is None or speaking is None or speaking.turn != answer.turn:
            self._hear_late(member, answer.turn)
            return
        self.stage.turn(run, member, answer)
        self._loop.round_ended = partial(self._mark, run)
        self._state.called_off.pop(member, None)
        await self._go_on(run, self._loop.hear(member, answer.turn, answer.messages, answer.is_team))
        await reached("turn ends")

    async def choose(self) -> None:
        """The strategy chooses anew, which had asked a person."""
        if self._state.run is not None:
            await self._go_on(self._state.run, self._loop.choose())

    async def _mark(self, run: CurrentRun, speakers: Sequence[str]) -> None:
        """Where the conversation is after a turn, before the strategy has chosen the next one."""
        await mark_turn(self._state, self._loop, run, self._settings.fork_turns, speakers)
        marks = self._state.marks
        saved = marks[-1].selection if marks else await self._loop.selection.save_state()
        self._state.selection, self._before = dict(saved), self._state.context.savepoint()

    def _hear_late(self, member: str, turn: int) -> None:
        """A member that had begun to speak before its run was cancelled has heard what it was told: it is not told again."""
        called_off = self._state.called_off.get(member, [])
        for late in called_off:
            if late.turn == turn:
                self._state.heard[member] = late.heard
                self._state.called_off[member] = [one for one in called_off if one.turn > late.turn]

    async def fail(self, failed: TurnFailed) -> None:
        """The run under way has failed."""
        await self._end(RunEnded(state="failed", error=failed))

    async def exceed(self, overspent: Overspent) -> None:
        """The run under way has used what it may."""
        name = self._loop.plan.name
        await self.fail(failure_of(budget_error(overspent, name), name))

    async def time_up(self, run_id: str) -> None:
        """The time of a run is over."""
        run = self._state.run
        if run is not None and run.run_id == run_id:
            # The message that tells of it is the one that is handled: cancelling it would undo what its handler does.
            run.timer = ""
            await self.exceed(time_overspent(run.budget))

    async def _go_on(self, run: CurrentRun, step: Coroutine[Any, Any, Choice | None]) -> None:
        self._loop.show = lambda event: self.stage.show(run, event)
        self._loop.choosing = partial(self._consults.answers, run)
        tape, following = tape_for(run.record), None
        try:
            with in_run_path(run.path), taping(tape):
                following = await self._in_time(step)
            await write_takes(self._manager.runtime, run.stream, tape)
        except UnansweredError as unanswered:
            # It chooses once more when there is an answer, from its start, in this process or in another. What the first
            # call left in it (a message in its context, a name that was tried) would be there twice.
            # guard: a strategy that asks is as it was before it chose
            self.is_undone = True
            self._state.context.go_back(self._before)
            await write_takes(self._manager.runtime, run.stream, tape)
            await self._consults.ask(run, unanswered)
        except Exception as error:
            outage = await outage_after(self._loop.plan.name, error)
            if outage is not None:
                await self.stage.waits(run, outage)
            # While the server is away the handler is repeated. Were the run ended here, the commit that says so would reach
            # the server when it is back: an outage of a second would fail each run that was choosing.
            # guard: an outage is waited for, and any other error ends the run
            if outage is not None or is_outage(error):
                raise
            await self.fail(failure_of(error, self._loop.plan.name))
        if following is not None:
            if run.answers:
                run.answers = {}
            await self._follow(run, following)

    async def _in_time(self, step: Coroutine[Any, Any, T]) -> T:
        # A strategy of the user's may wait for ever, and the readers of the run would with it.
        return await within(self._settings.choice_timeout, step, self._loop.plan.name)

    async def _follow(self, run: CurrentRun, following: Choice) -> None:
        if following.said or self.stage.is_thinking:
            await self.stage.said(run, following.said)
        marks = self._state.marks
        for name in following.resets:
            await self._manager.tell(Forget(turn=marks[-1].turn if marks else 0), self._address(name))
        if following.stop is not None:
            await self._end(RunEnded(state="completed", stop_reason=following.stop))
        elif following.speakers and run.is_stopping:
            await self._end(RunEnded(state="completed", stop_reason=STOPPED))
        else:
            names, budget = following.speakers, run.budget
            overspent = None if budget is None else turns_overspent(budget, run.asked, len(names))
            if overspent is not None:
                await self.exceed(overspent)
                return
            run.asked += len(names)
            if run.is_paused or run.is_stepping:
                self._hold(run, names)
            else:
                await self._ask(run, names)

    def _hold(self, run: CurrentRun, names: Sequence[str]) -> None:
        run.held = [*run.held, *names]
        if run.is_stepping and names:
            self.stage.held(run, self._state.last_turn)

    async def _ask(self, run: CurrentRun, members: Sequence[str]) -> None:
        for name in members:
            speaking = self._state.speaking[name]
            called_off = self._state.called_off.get(name, ())
            # A run is cancelled while `Speak` is on its way: the member may have taken that turn or not, which only it
            # knows. Its next `Speak` says what came with the earlier one; without this a member that had heard it would
            # hear it again.
            # guard: what came with a turn that was called off is not heard twice
            told = {late.turn: len(self._loop.unheard(name, late)) for late in called_off}
            speak = Speak(
                run=run.stream,
                turn=speaking.turn,
                messages=list[AnyMessage](self._loop.unheard(name, speaking)),
                inside=run.inside,
                told=told,
                record=run.record,
                hearer=run.hearer,
                heard_by=run.heard_by,
            )
            to, asking = self._address(name), asking_id(self._manager.id, run.run_id, speaking.turn)
            with in_run_path(run.path):
                await tell_all_of(self._manager, speak, to, message_id=asking, cancellable=True)

    async def _end(self, end: RunEnded) -> None:
        run = self._state.run
        if run is None:
            return
        await self._call_off(run)
        if run.timer:
            self._cancel(run.timer)
        self._state.run = None
        self._state.speaking.clear()
        if run.parent is None:
            await self._over(run, end)
        else:
            await self._answer(run, end)
        await self._begin_queued()

    async def _over(self, run: CurrentRun, end: RunEnded) -> None:
        """Readers see the end, and who is to hear of it is told."""
        self.stage.ended(run, end)
        if run.hearer or run.heard_by:
            said = [entry.message for entry in self._state.thread[run.first :]]
            await tell_end(self._manager, run, end, said[-1].to_text() if said else "")

    async def _answer(self, run: CurrentRun, end: RunEnded) -> None:
        """The larger team hears what became of its turn; one that was cancelled does not wait."""
        parent = run.parent
        if parent is None or end.state == "cancelled":
            return
        answer: Answer | TurnFailed
        if end.error is None:
            said = [entry.message for entry in self._state.thread[run.first :]]
            answer = Answer(turn=parent.turn, attempt="", messages=said, is_team=True)
        else:
            answer = end.error.model_copy(update={"turn": parent.turn})
        message_id = answer_id(parent.turn, run.run_id)
        await tell_all_of(self._manager, answer, parent.manager, message_id=message_id)

    async def _begin_queued(self) -> None:
        while self._state.run is None and self._state.queued:
            await self.start(self._state.queued.pop(0))

    async def start(self, order: StartRun) -> str:
        """A client's run begins; where the strategy refuses it, that is its end. Returns why."""
        run = self._run_of(order)
        problem = await self.begin(run, order.task)
        if problem:
            await self.refuse(order, problem)
        return problem

    async def refuse(self, order: StartRun, problem: str) -> None:
        """A client's run can't begin: that is its end."""
        run = self._run_of(order)
        run.first = len(self._state.thread)
        failed = TurnFailed(turn=0, error_type="ValueError", text=problem, where=self._loop.plan.name)
        self.stage.task(run, order.task)
        await self._over(run, RunEnded(state="failed", error=failed))

    def _run_of(self, order: StartRun) -> CurrentRun:
        me, run_id = self._manager.id, order.run_id
        path = order.path or path_of(me, run_id)
        return CurrentRun(
            run_id=run_id,
            stream=stream_of(me, run_id),
            path=path,
            budget=order.budget,
            record=order.record,
            is_stepping=order.step,
            hearer=order.hearer,
            heard_by=self._heard_by,
        )

    async def take_turn(self, run: CurrentRun, heard: Sequence[Said]) -> None:
        """A run begins because it is this team's turn in a larger one; where the strategy refuses it, the turn fails."""
        problem = await self.begin(run, heard)
        if problem:
            self._state.run = run
            error = TurnFailed(turn=0, error_type="ValueError", text=problem, where=self._loop.plan.name)
            await self.fail(error)
        elif run.parent is not None:
            self._state.asked = run.parent.turn

    async def interrupt_for(self, order: StartRun) -> None:
        """The run under way is cancelled, and this one begins before those that wait."""
        self._state.queued = [order, *self._state.queued]
        if self._state.run is not None:
            await self.abort(self._state.run, True)

    # Orders

    async def pause(self, run: CurrentRun, now: bool) -> bool:
        """No member begins to speak; `now`: those who are speaking are interrupted as well."""
        if run.is_paused and (run.is_interrupted or not now):
            return False
        run.is_paused = True
        await self._tell_all(Told(what="pause", now=now))
        if now:
            run.is_interrupted = True
            self._acts.extend(("pause", str(agent)) for agent in self._agents_speaking())
        return True

    async def resume(self, run: CurrentRun, now: bool) -> bool:
        """It goes on."""
        if not run.is_paused:
            return False
        await self._let_go_on(run)
        run.is_paused = False
        await self._tell_all(Told(what="resume"))
        if run.is_wanted or not run.is_stepping:
            await self._release(run)
        return True

    async def step(self, run: CurrentRun, now: bool, turn: int) -> bool:
        """The next turn may begin, of a run that waits before each; `now`: and all that follow."""
        if not run.is_stepping or (turn and turn != self._state.last_turn and not now):
            return False
        run.is_stepping = not now
        run.is_wanted = run.is_paused
        if run.held and not run.is_paused:
            await self._release(run)
            return True
        return now

    async def _release(self, run: CurrentRun) -> None:
        run.is_wanted = False
        held, run.held = run.held, []
        await self._ask(run, held)

    async def stop(self, run: CurrentRun, now: bool) -> bool:
        """It ends when the turn under way has ended."""
        run.is_stopping = True
        if run.held or not self._state.speaking:
            await self._end(RunEnded(state="completed", stop_reason=STOPPED))
        return True

    async def abort(self, run: CurrentRun, now: bool) -> bool:
        """It ends now. Members that are speaking are cancelled, in whatever process; an answer that comes late is void."""
        await self._end(RunEnded(state="cancelled"))
        return True

    async def abort_queued(self, run_id: str) -> bool:
        """A task that waits is not carried out."""
        queued = self._state.queued
        found = [order for order in queued if order.run_id == run_id]
        if found:
            self._state.queued = [order for order in queued if order.run_id != run_id]
            run = self._run_of(found[0])
            run.first = len(self._state.thread)
            self.stage.task(run, found[0].task)
            await self._over(run, RunEnded(state="cancelled"))
        return bool(found)

    async def _call_off(self, run: CurrentRun) -> None:
        """Cancel the members that are speaking, whose answers are not waited for; a team passes it on to its own."""
        for name, speaking in self._state.speaking.items():
            if name in run.held:
                continue
            self._state.called_off[name] = [*self._state.called_off.get(name, ()), speaking]
            if name in self._teams:
                await self._manager.tell(Told(what="abort"), self._address(name))
            else:
                self._cancel(asking_id(self._manager.id, run.run_id, speaking.turn))
        if run.asking and self._loop.termination is not None:
            # The turn loop does so where a member has spoken, or is to speak.
            await self._loop.termination.reset()
        self._consults.withdraw(run)
        await self._let_go_on(run)

    async def _let_go_on(self, run: CurrentRun) -> None:
        """Members that were interrupted may speak again."""
        if run.is_interrupted:
            run.is_interrupted = False
            self._acts.extend(("resume", str(agent)) for agent in self._agents_speaking())

    async def write(self) -> None:
        """Put into the commit what readers are to see, and what is to be done with members once it is committed.

        Orders to members do not wait for a commit. Given before it, they would hold although the run knows nothing of them:
        where a manager dies or stands still in between for longer than its caller waits, the call is over. The run would
        wait for ever for a member that was cancelled, or that is paused.
        """
        # guard: members are interrupted and cancelled for what is committed
        if self._acts:
            await self._manager.tell(Act(orders=self._acts), self._manager.id)
            self._acts = []
            await reached("order taken")
        await self.stage.write()

    def _cancel(self, message_id: str) -> None:
        self._acts.append(("cancel", message_id))

    async def _tell_all(self, told: Told) -> None:
        for member in self._loop.plan.members:
            await self._manager.tell(told, self._address(member.name))

    def _agents_speaking(self) -> list[AgentId]:
        """The members whose turn it is, but for teams: these interrupt their own members."""
        return [self._address(name) for name in self._state.speaking if name not in self._teams]

    def _address(self, member: str) -> AgentId:
        return member_address(self._manager.id, member)


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
        self._drafts: Drafts | None = None  # of the choice that is being made
        self._thoughts: list[Said] = []  # those of the drafts that are kept

    @property
    def is_thinking(self) -> bool:
        """Whether something was shown of a choice that is not said yet."""
        return self._drafts is not None

    def task(self, run: CurrentRun, messages: Sequence[Said]) -> None:
        """The beginning of a run, with its task; that of a nested team was seen already, where it was said."""
        if run.parent is None:
            began = RunBegan(team=self._team.type, conversation=self._team.key, run_id=run.run_id)
            shown = Shown(
                turn=(0,), source="", attempt="", messages=list(messages), is_final=True, is_task=True
            )
            self._add(run, shown.model_copy(update={"began": began}))

    async def said(self, run: CurrentRun, messages: Sequence[Said]) -> None:
        """Something that the manager says or lets be seen, behind what it let be seen while it chose."""
        drafts, self._drafts = self._drafts, None
        thoughts, self._thoughts = self._thoughts, []
        if drafts is not None:
            # A draft that is written after what it led to would be seen behind it, as one of an attempt that died.
            await drafts.flush()
        shown = Shown(
            turn=(*run.inside, 0),
            source=self._name,
            attempt="" if drafts is None else drafts.attempt,
            messages=[*thoughts, *messages],
            is_final=True,
        )
        self._add(run, shown)

    def turn(self, run: CurrentRun, member: str, answer: Answer) -> None:
        """The messages of a member, in parts that are small enough. They take the place of its drafts."""
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
            await self._show_ahead(tag_of((*run.inside, 0)))
            self._drafts = Drafts(self._runtime, run.stream, (*run.inside, 0), self._name)
        if is_kept(event):
            self._thoughts.append(event)
        await self._drafts.show(event)

    async def waits(self, run: CurrentRun, outage: OutageEvent) -> None:
        """Something that the strategy needs is away; it chooses again later, in another attempt, which shows all of it."""
        await self.show(run, outage)
        if self._drafts is not None:
            await self._drafts.flush()

    async def _show_ahead(self, tag: str) -> None:
        """What waits for the commit is what the strategy chooses by, so it is seen before the choice: as a draft of it."""
        for batch in self._batches:
            drafts = [
                entry.model_copy(update={"is_final": False})
                for entry in batch.events
                if isinstance(entry, Shown)
            ]
            await self._runtime.write_run(batch.stream, drafts, tag=tag, now=True)

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


class UnansweredError(BaseException):
    """The strategy asks a question without an answer: its choice is off, and made anew when there is one.

    As `Suspended` does, it passes what catches exceptions.

    Args:
        name: Name of what it asks.
        question: What it asks, checked.
    """

    def __init__(self, name: str, question: Question) -> None:
        super().__init__(question.text)
        self.name = name
        self.question = question


class Consults:
    """Asks people for a strategy.

    Args:
        manager: Tells the agent that asks.
        cancel: Cancels the message by which it was asked.
        source: Name of the manager, which readers see as who asks.
    """

    def __init__(self, manager: Messaging, cancel: Callable[[str], None], source: str) -> None:
        self._manager = manager
        self._cancel = cancel
        self._source = source

    def answers(self, run: CurrentRun) -> ContextScope[OnInput | None]:
        """Where the strategy chooses: what it asks is answered, or UnansweredError."""
        return asking_by(partial(_answer, run))

    async def ask(self, run: CurrentRun, unanswered: UnansweredError) -> None:
        """Have the agent ask that does so for this manager; `Consulted` says what came of it."""
        asked = unanswered.question
        run.consulted += 1
        run.asking = consulting_id(self._manager.id, run.run_id, run.consulted)
        consult = Consult(
            id=run.asking,
            run=run.stream,
            inside=run.inside,
            source=self._source,
            name=unanswered.name,
            text=asked.text,
            answer_schema=json.loads(asked.schema),
            choices=asked.choices or (),
            to=asked.to,
            timeout=asked.timeout,
            default=asked.default_json,
            details=json.loads(asked.details_json or "{}"),
            hearer=run.hearer,
            heard_by=run.heard_by,
        )
        asks = asking_address(self._manager.id)
        with in_run_path(run.path):
            await tell_all_of(self._manager, consult, asks, message_id=run.asking, cancellable=True)

    def withdraw(self, run: CurrentRun) -> None:
        """The run has ended: its question is withdrawn."""
        if run.asking:
            self._cancel(run.asking)
            run.asking = ""


def note_answer(run: CurrentRun | None, told: Consulted) -> bool:
    """Keeps what came of a question. Returns whether the run waits for it."""
    # An answer may come when the run that asked is over and the next one asks something else: it would be taken for the
    # answer to that, and the strategy would choose by what was said about another question.
    # guard: only the answer that a run waits for lets it go on
    if run is None or not told.id or run.asking != told.id:
        return False
    run.answers[told.name] = told
    run.asking = ""
    return True


async def _answer(run: CurrentRun, question: Question) -> Any:
    told = run.answers.get(question.name)
    if told is None:
        raise UnansweredError(question.name, question.checked())
    if told.status is InputStatus.ANSWERED:
        return question.checked().read(told.input_id, told.answer)
    raise (InputExpiredError if told.status is InputStatus.EXPIRED else InputWithdrawnError)(told.input_id)


async def consult(agent: Messaging, consult: Consult, ctx: MessageContext) -> None:
    """Ask a person for the manager of a conversation, and tell it what came of the question.

    Args:
        agent: The agent that asks, see `asking_address`.
        consult: What it asks.
        ctx: The context of that message.
    """
    if ctx.sender is None:
        raise TeamNotRunError(agent.id.type, "was told to ask by nobody")
    runtime = cast("RedisAgentRuntime", agent.runtime)
    hearers = Hearers(consult.hearer, consult.heard_by)
    shown = ShownQuestions(runtime, consult.run, (*consult.inside, 0), consult.source, agent.id, hearers)
    # What it is read as only the manager knows.
    answer_type: Any = Annotated[Any, WithJsonSchema(consult.answer_schema)]
    answer, status, input_id = "", InputStatus.ANSWERED, ""
    try:
        with ContextScope(noting, shown):
            answer = as_json(
                await ctx.ask(
                    consult.text,
                    name=consult.name,
                    choices=consult.choices or None,
                    answer_type=answer_type,
                    to=consult.to or None,
                    timeout=consult.timeout,
                    default=UNSET if consult.default is None else json.loads(consult.default),
                    details=consult.details,
                )
            )
    except (InputExpiredError, InputWithdrawnError) as error:
        is_late = isinstance(error, InputExpiredError)
        status = InputStatus.EXPIRED if is_late else InputStatus.WITHDRAWN
        input_id = getattr(error, "input_id", "")
    told = Consulted(id=consult.id, name=consult.name, status=status, answer=answer, input_id=input_id)
    await agent.tell(told, ctx.sender)


async def act(control: Control, orders: Act) -> None:
    """Cancel messages, pause agents and let them go on, as a manager has told itself."""
    for what, of in orders.orders:
        if what == "cancel":
            await control.cancel(of)
        elif what == "pause":
            await control.pause(AgentId.from_str(of), by="team", now=True)
        else:
            await control.resume(AgentId.from_str(of), by="team")


async def within(seconds: float, step: Coroutine[Any, Any, T], team: str) -> T:
    """Awaits a coroutine for so long at most.

    Most strategies and conditions decide without waiting for anything: they have ended when others would begin to wait, and
    no timer is made for them. `asyncio.timeout` makes one each time, which takes as long as to choose.

    Args:
        seconds: How long it may wait, from when it first does.
        step: The coroutine.
        team: Name of the team, for the error.

    Raises:
        TeamNotRunError: It has not ended by then, and was cancelled (a RuntimeError).
    """
    try:
        waiting = step.send(None)
    except StopIteration as ended:
        value: T = ended.value
        return value
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await _rest(step, waiting)
    except TimeoutError as error:
        if limit.expired():
            raise TeamNotRunError(
                team,
                f"could not choose who speaks next within choice_timeout={seconds:g} s: "
                f"look for what its strategy or its termination condition waits for",
            ) from error
        raise


@coroutine
def _rest(step: Coroutine[Any, Any, T], waiting: Any) -> Generator[Any, Any, T]:
    """The rest of a coroutine that waits for something."""
    try:
        while True:
            try:
                answer = yield waiting
            except BaseException as error:  # noqa: BLE001 - it is the coroutine's, also that it is cancelled or closed
                waiting = step.throw(error)
            else:
                waiting = step.send(answer)
    except StopIteration as ended:
        value: T = ended.value
        return value
