"""The steps of a run on the bus: what the manager does, whoever told it something."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from callboard.agents.task import Said
from callboard.broker import AgentId, BrokerSettings
from callboard.broker.outages import is_outage
from callboard.messages.base import BaseChatMessage
from callboard.messaging import Messaging
from callboard.runtime.control import Control
from callboard.runtime.runs import in_run_path
from callboard.runtime.taping import taping

from .addresses import asking_id, member_address
from .budget import Overspent
from .consulting import Consulting, UnansweredError
from .errors import ChoiceTimeoutError
from .limiting import Limiting
from .loop import Next, Spoken, TurnLoop
from .manager_state import CurrentRun, ManagerState
from .marking import mark_turn
from .orders import Answer, Forget, RunEnded, Speak, StartRun, Told, TurnFailed, path_of, stream_of
from .run_errors import answer_id, budget_error, failure_of, unborn_text
from .sizes import tell_all_of
from .stage import Stage
from .state import Speaking
from .steps import reached
from .takes import tape_for, write_takes
from .thread import heard_by
from .within import LateError, within

T = TypeVar("T")

STOPPED: Final = "External termination requested"


class Leading:
    """Leads the runs of one conversation while one message is handled.

    Args:
        manager: Tells members and larger teams what they are to know.
        control: Interrupts and cancels members, past their queued messages.
        state: What is remembered.
        loop: The turn loop.
        teams: Names of the members that are teams.
        settings: How long strategy and condition may take, and how far back a fork reaches.

    Attributes:
        is_undone: Whether the strategy has to be as it was before it chose: its loop is not to be used any more.
    """

    def __init__(
        self,
        manager: Messaging,
        control: Control,
        state: ManagerState,
        loop: TurnLoop,
        teams: frozenset[str],
        settings: BrokerSettings,
    ) -> None:
        self._control = control
        self._manager = manager
        self._state = state
        self._loop = loop
        self._teams = teams
        self._settings = settings
        self._limiting = Limiting(manager, control)
        self._consulting = Consulting(manager, control, loop.plan.name)
        self.is_undone = False
        self._before = state.context.savepoint()
        self.stage = Stage(manager.runtime, manager.id, loop.plan.name)

    # A run begins, goes on, ends

    async def begin(self, run: CurrentRun, task: Sequence[Said]) -> str:
        """A run begins.

        Returns:
            Why it can't, in the words of the strategy; "": it has begun.
        """
        # guard: a fork that is not whole does not go on
        if self._state.unborn:
            return unborn_text(self._state.unborn)
        messages = [message for message in task if isinstance(message, BaseChatMessage)]
        run.first = len(self._state.thread) + len(messages)
        self._loop.show = lambda event: self.stage.show(run, event)
        try:
            with in_run_path(run.path):
                await self._in_time(self._loop.check(messages or None))
        except (ValueError, ChoiceTimeoutError) as error:
            return str(error)
        self._state.run = run
        run.budget = run.budget or self._loop.plan.budget
        await self._limiting.begin(run)
        self.stage.task(run, messages)
        await self._go_on(run, self._loop.start(messages or None))
        await reached("run begins")
        return ""

    async def hear(self, run: CurrentRun | None, member: str, answer: Answer) -> None:
        """A member has spoken."""
        spoken = Spoken(member, answer.turn, answer.messages, answer.is_team)
        speaking = self._state.speaking.get(spoken.member)
        if run is None or speaking is None or speaking.turn != spoken.turn:
            self._hear_late(spoken)
            return
        self.stage.turn(run, member, answer)
        self._loop.round_ended = partial(self._mark, run)
        self._state.called_off.pop(member, None)
        await self._go_on(run, self._loop.hear(spoken))
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

    def _hear_late(self, spoken: Spoken) -> None:
        """Who had begun to speak before the run was cancelled has heard what it was told, and is not told again."""
        called_off = self._state.called_off.get(spoken.member, [])
        for late in called_off:
            if late.turn == spoken.turn:
                self._state.heard[spoken.member] = late.heard
                self._state.called_off[spoken.member] = [one for one in called_off if one.turn > late.turn]

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
            await self.exceed(self._limiting.time_up(run))

    async def _go_on(self, run: CurrentRun, step: Coroutine[Any, Any, Next | None]) -> None:
        self._loop.show = lambda event: self.stage.show(run, event)
        self._loop.choosing = partial(self._consulting.answers, run)
        tape, following = tape_for(run.record), None
        try:
            with in_run_path(run.path), taping(tape):
                following = await self._in_time(step)
            await write_takes(self._manager.runtime, run.stream, tape)
        except UnansweredError as unanswered:
            # guard: a strategy that asks is as it was before it chose
            self.is_undone = True
            self._state.context.go_back(self._before)
            await write_takes(self._manager.runtime, run.stream, tape)
            await self._consulting.ask(run, unanswered)
        except Exception as error:
            # guard: an outage is waited for, and any other error ends the run
            if is_outage(error):
                raise
            await self.fail(failure_of(error, self._loop.plan.name))
        if following is not None:
            if run.answers:
                run.answers = {}
            await self._follow(run, following)

    async def _in_time(self, step: Coroutine[Any, Any, T]) -> T:
        # What the user wrote may wait for ever, and whoever waits for the run would with it.
        seconds = self._settings.choice_timeout
        try:
            return await within(seconds, step)
        except LateError as error:
            raise ChoiceTimeoutError(self._loop.plan.name, seconds) from error

    async def _follow(self, run: CurrentRun, following: Next) -> None:
        if following.said:
            self.stage.said(run, following.said)
        marks = self._state.marks
        for name in following.resets:
            await self._manager.tell(Forget(turn=marks[-1].turn if marks else 0), self._address(name))
        if following.stop is not None:
            await self._end(RunEnded(state="completed", stop_reason=following.stop))
        elif following.asks and run.is_stopping:
            await self._end(RunEnded(state="completed", stop_reason=STOPPED))
        else:
            names = [ask.member for ask in following.asks]
            overspent = self._limiting.ask(run, len(names))
            if overspent is not None:
                await self.exceed(overspent)
            elif run.is_paused or run.is_stepping:
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
            # guard: what came with a turn that was called off is not heard twice
            told = {late.turn: len(self._heard(name, late)) for late in called_off}
            speak = Speak(
                run=run.stream,
                turn=speaking.turn,
                messages=list(self._heard(name, speaking)),
                inside=run.inside,
                told=told,
                record=run.record,
            )
            to, asking = self._address(name), asking_id(self._manager.id, run.run_id, speaking.turn)
            with in_run_path(run.path):
                await tell_all_of(self._manager, speak, to, message_id=asking, cancellable=True)

    def _heard(self, name: str, speaking: Speaking) -> Sequence[BaseChatMessage]:
        """What is said to a member with a turn."""
        return heard_by(name, self._state.thread[self._state.heard.get(name, 0) : speaking.heard])

    async def _end(self, end: RunEnded) -> None:
        run = self._state.run
        if run is None:
            return
        await self._call_off(run)
        await self._limiting.end(run)
        self._state.run = None
        self._state.speaking.clear()
        if run.parent is None:
            self.stage.ended(run, end)
        else:
            await self._answer(run, end)
        await self._begin_queued()

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
            failed = TurnFailed(turn=0, error_type="ValueError", text=problem, where=self._loop.plan.name)
            self.stage.task(run, order.task)
            self.stage.ended(run, RunEnded(state="failed", error=failed))
        return problem

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
        """Nobody begins to speak; `now`: who is speaking is interrupted as well."""
        if run.is_paused and (run.is_interrupted or not now):
            return False
        run.is_paused = True
        await self._tell_all(Told(what="pause", now=now))
        if now:
            run.is_interrupted = True
            for agent in self._agents_speaking():
                await self._control.pause(agent, by="team", now=True)
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
        """It ends now. Whoever is speaking is cancelled, in whatever process; what they say all the same is not heard."""
        await self._end(RunEnded(state="cancelled"))
        return True

    async def abort_queued(self, run_id: str) -> bool:
        """A task that waits is not carried out."""
        queued = self._state.queued
        found = [order for order in queued if order.run_id == run_id]
        if found:
            self._state.queued = [order for order in queued if order.run_id != run_id]
            run = self._run_of(found[0])
            self.stage.task(run, found[0].task)
            self.stage.ended(run, RunEnded(state="cancelled"))
        return bool(found)

    async def _call_off(self, run: CurrentRun) -> None:
        """Nobody waits any more for those who are speaking: they are cancelled, and a team passes it on to its members."""
        for name, speaking in self._state.speaking.items():
            if name in run.held:
                continue
            self._state.called_off[name] = [*self._state.called_off.get(name, ()), speaking]
            if name in self._teams:
                await self._manager.tell(Told(what="abort"), self._address(name))
            else:
                await self._control.cancel(asking_id(self._manager.id, run.run_id, speaking.turn))
        if run.asking and self._loop.termination is not None:
            # The turn loop does so where somebody has spoken, or is to speak.
            await self._loop.termination.reset()
        await self._consulting.withdraw(run)
        await self._let_go_on(run)

    async def _let_go_on(self, run: CurrentRun) -> None:
        """Whoever was interrupted may speak again."""
        if run.is_interrupted:
            run.is_interrupted = False
            for agent in self._agents_speaking():
                await self._control.resume(agent, by="team")

    async def _tell_all(self, told: Told) -> None:
        for member in self._loop.plan.members:
            await self._manager.tell(told, self._address(member.name))

    def _agents_speaking(self) -> list[AgentId]:
        """The members whose turn it is, but for teams: these interrupt their own members."""
        return [self._address(name) for name in self._state.speaking if name not in self._teams]

    def _address(self, member: str) -> AgentId:
        return member_address(self._manager.id, member)
