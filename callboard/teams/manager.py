"""The manager of a team as an actor: what arrives, and which step of a run it leads to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Final

from callboard.broker import AgentId
from callboard.broker.buried import Buried
from callboard.broker.redis.operations.inspect import types_with_worker
from callboard.context import MessageContext
from callboard.handlers import event, rpc
from callboard.runtime.run_paths import with_part
from callboard.runtime.runs import run_path

from .addresses import asking_id, member_address, member_name
from .budget import not_limited
from .leading import Leading
from .led import LedTeam
from .loop import TurnLoop
from .manager_state import CurrentRun, ManagerState, Parent
from .orders import (
    BECOME,
    Accepted,
    Answer,
    BeginRun,
    Control,
    Describe,
    Forget,
    ResetConversation,
    Speak,
    StartRun,
    TimeUp,
    Told,
    TurnFailed,
)
from .run_errors import failure_by, turn_answered, unborn_text
from .saved import BUSY, SavedManager
from .steps import reached

if TYPE_CHECKING:
    from callboard.runtime import control

RECENT: Final = 100  # runs whose ids are remembered
IDLE: Final = "no run is under way"


class TeamManager(SavedManager):
    """Leads the conversations of one team; each has an agent of its own, whose key is the conversation's id.

    It never waits for a member: who is to speak is told so, and tells what it has said. So a message is all that is under
    way, and when a process dies one handler is repeated.

    Args:
        team: The team.
    """

    def __init__(self, team: LedTeam) -> None:
        super().__init__(team.description)
        self._team = team
        self._teams = frozenset(member.name for member in team.participants if isinstance(member, LedTeam))
        self._loop: TurnLoop | None = None
        self._control: control.Control | None = None

    @property
    def team(self) -> LedTeam:
        """The team."""
        return self._team

    def forget_loop(self) -> None:
        """The state was replaced."""
        self._loop = None

    # From clients

    @rpc
    async def on_start(self, message: StartRun, ctx: MessageContext) -> Accepted:
        """A task."""
        return await self._start(message)

    @event
    async def on_begin(self, message: BeginRun, ctx: MessageContext) -> None:
        """A task whose sender waits for no answer; where it is refused, the run's stream says why."""
        await self._start(message.run)

    async def _start(self, message: StartRun) -> Accepted:
        await reached("run asked for")
        await self._miss_members()
        await self.find_born()
        run_id, run = message.run_id, self.state.run
        if run_id in self.state.recent:
            return Accepted(run_id=run_id, state="working")
        if message.budget is not None and message.budget.is_for_models:
            problem = not_limited(self._team.participants)
            if problem:
                return Accepted(run_id=run_id, done=False, problem=problem)
        if run is not None and message.if_busy == "reject":
            return Accepted(run_id=run.run_id, state=run.state, done=False, problem=BUSY)
        self.state.recent = [*self.state.recent[-RECENT:], run_id]
        if run is not None and message.if_busy == "enqueue":
            self.state.queued = [*self.state.queued, message]
            return Accepted(run_id=run_id, state="queued")
        leading = await self._leading()
        if run is not None:
            await leading.interrupt_for(message)
            problem = ""
        else:
            problem = await leading.start(message)
        await self.keep(leading)
        return Accepted(run_id=run_id, state="working", done=not problem, problem=problem)

    @rpc
    async def on_control(self, message: Control, ctx: MessageContext) -> Accepted:
        """Pause, resume, stop, abort."""
        await self._miss_members()
        run = self.state.run
        if message.run_id and (run is None or run.run_id != message.run_id):
            return await self._control_waiting(message)
        if run is None:
            return Accepted(done=False, problem=IDLE)
        leading = await self._leading()
        orders: dict[str, Callable[[CurrentRun, bool], Awaitable[bool]]] = {
            "pause": leading.pause,
            "resume": leading.resume,
            "stop": leading.stop,
            "abort": leading.abort,
            "step": partial(leading.step, turn=message.turn),
        }
        done = await orders[message.what](run, message.now)
        await self.keep(leading)
        return self._accepted(run.run_id, done)

    @rpc
    async def on_describe(self, message: Describe, ctx: MessageContext) -> Accepted:
        """How the conversation stands."""
        await self._miss_members()
        run, asked = self.state.run, message.run_id
        if asked and (run is None or run.run_id != asked):
            is_queued = any(order.run_id == asked for order in self.state.queued)
            return Accepted(run_id=asked, state="queued" if is_queued else "idle")
        described = self._accepted("" if run is None else run.run_id, True)
        return described.model_copy(update={"missing": await self._missing()})

    async def _missing(self) -> list[str]:
        """Who is to speak, and nobody runs."""
        if not self.state.speaking:
            return []
        served, missing = await types_with_worker(self._bus.transport), []
        for name in self.state.speaking:
            address = self._address(name)
            if address.type not in served:
                missing.append(name)
            elif name in self._teams:
                inner: Accepted = await self.send_message(Describe(), address)
                missing += [f"{name}.{one}" for one in inner.missing]
        return missing

    async def _control_waiting(self, message: Control) -> Accepted:
        """An order to a run that is not under way: it waits, or has ended."""
        is_waiting = any(order.run_id == message.run_id for order in self.state.queued)
        if message.what == "step" and message.now:
            self.state.queued = [
                order.model_copy(update={"step": False}) if order.run_id == message.run_id else order
                for order in self.state.queued
            ]
        if not is_waiting or message.what != "abort":
            return Accepted(run_id=message.run_id, done=False, problem="" if is_waiting else IDLE)
        leading = await self._leading()
        await leading.abort_queued(message.run_id)
        await self.keep(leading)
        return Accepted(run_id=message.run_id)

    async def _miss_members(self) -> None:
        """A run in which somebody is to speak who is no member any more has failed: the team was changed meanwhile."""
        names = {member.name for member in self._team.plan.members}
        for name in self.state.speaking.keys() - names:
            text = f"{name!r} was asked to speak, and is no member of the team any more"
            leading = await self._leading()
            await leading.fail(TurnFailed(turn=0, error_type="TeamDeclarationError", text=text, where=name))
            await self.keep(leading)
            return

    @rpc
    async def on_reset(self, message: ResetConversation, ctx: MessageContext) -> Accepted:
        """Forget the conversation, members included.

        Raises:
            TeamMemberError: A member can't (a RuntimeError).
        """
        await self._miss_members()
        run = self.state.run
        if run is not None:
            return Accepted(run_id=run.run_id, done=False, problem=BUSY)
        for member in self._team.plan.members:
            await self.ask_member(message, member.name, "forget the conversation")
        await self._forget()
        return Accepted()

    @event
    async def on_time_up(self, message: TimeUp, ctx: MessageContext) -> None:
        """The time of a run's budget is over, if that run is under way."""
        await self._miss_members()
        leading = await self._leading()
        await leading.time_up(message.run_id)
        await self.keep(leading)

    # From a larger team

    @event
    async def on_speak(self, message: Speak, ctx: MessageContext) -> None:
        """It is this team's turn in a larger one."""
        await reached("run asked for")
        await self.find_born()
        inside = (*message.inside, message.turn)
        parent = Parent(manager=str(ctx.sender), turn=message.turn, inside=inside)
        leading = await self._leading()
        if self.state.run is not None:
            await leading.abort(self.state.run, True)
        path = with_part(run_path() or message.run, f"/{message.turn}")
        run = CurrentRun(
            run_id=ctx.message_id, stream=message.run, path=path, parent=parent, record=message.record
        )
        await leading.take_turn(run, message.unheard_after(self.state.asked))
        await self.keep(leading)

    @event
    async def on_forget(self, message: Forget, ctx: MessageContext) -> None:
        """The larger team begins anew."""
        if self.state.run is not None:
            leading = await self._leading()
            await leading.abort(self.state.run, True)
            await self.keep(leading)
        for member in self._team.plan.members:
            await self.tell(Forget(turn=self.state.last_turn), self._address(member.name))
        lost = max(message.turn, self.state.asked)
        await self._forget()
        self.state.lost = lost

    @event
    async def on_told(self, message: Told, ctx: MessageContext) -> None:
        """The larger team pauses or goes on, or its run was cancelled."""
        run = self.state.run
        if run is not None and run.parent is not None:
            leading = await self._leading()
            orders = {"pause": leading.pause, "resume": leading.resume, "abort": leading.abort}
            await orders[message.what](run, message.now)
            await self.keep(leading)

    # From members

    @event
    async def on_answer(self, message: Answer, ctx: MessageContext) -> None:
        """A member has spoken."""
        await reached("answer heard")
        member = self._member(ctx.sender)
        leading = await self._leading()
        await leading.hear(self.state.run, member, message)
        await self.keep(leading)

    @event
    async def on_turn_failed(self, message: TurnFailed, ctx: MessageContext) -> None:
        """A member can't answer."""
        await self._turn_failed(self._member(ctx.sender), message)

    @event
    async def on_buried(self, message: Buried, ctx: MessageContext) -> None:
        """What was told could not be handled: a member's turn is a dead letter, or what a larger team was answered."""
        recipient = AgentId.from_str(message.recipient)
        run = self.state.run
        if run is not None and run.asking and message.message_id == run.asking:
            leading = await self._leading()
            await leading.fail(failure_by(message, self._team.plan.name, 0))
            await self.keep(leading)
            return
        member = self._member(recipient)
        if not member:
            turn = turn_answered(message, self.state.asked)
            await self.tell(failure_by(message, self._team.plan.name, turn), recipient)
            return
        if message.type == BECOME:
            await self._not_born(member, message)
            return
        speaking = self.state.speaking.get(member)
        # guard: a turn fails with its own dead letter only
        if speaking is not None and message.message_id == self._asked_by(speaking.turn):
            await self._turn_failed(member, failure_by(message, member, speaking.turn))

    async def _not_born(self, member: str, message: Buried) -> None:
        """A member could not take over its part in a fork: nothing is said in it as long as that is so."""
        self.state.unborn = {**self.state.unborn, member: message.error or message.reason}
        if self.state.run is not None:
            text, where = unborn_text(self.state.unborn), self._team.plan.name
            leading = await self._leading()
            await leading.fail(TurnFailed(turn=0, error_type="TeamForkError", text=text, where=where))
            await self.keep(leading)

    def _asked_by(self, turn: int) -> str:
        return "" if self.state.run is None else asking_id(self.id, self.state.run.run_id, turn)

    async def _turn_failed(self, member: str, failed: TurnFailed) -> None:
        speaking = self.state.speaking.get(member)
        if self.state.run is not None and speaking is not None and speaking.turn == failed.turn:
            leading = await self._leading()
            await leading.fail(failed)
            await self.keep(leading)

    # Parts

    async def _leading(self) -> Leading:
        if self._control is None:  # made once: it draws a random name
            self._control = self._bus.control
        settings = self._bus.settings
        return Leading(self, self._control, self.state, await self.turn_loop(), self._teams, settings)

    async def turn_loop(self) -> TurnLoop:
        """The turn loop as the last commit left it, wherever that was."""
        # guard: a manager goes on from what its last message left
        if self._loop is None or self._loop.state is not self.state:
            self._loop = await self.made(self.state)
        return self._loop

    async def made(self, state: ManagerState) -> TurnLoop:
        """A turn loop over this state."""
        team = self._team
        selection, termination = team.new_selection(), deepcopy(team.termination_condition)
        selection.keep_context_in(state.context)
        if state.selection:
            await selection.load_state(state.selection)
        if termination is not None and state.termination is not None:
            await termination.load_state(state.termination)
        return TurnLoop(team.plan, state, selection, termination)

    async def keep(self, leading: Leading | None = None) -> None:
        """What strategy and condition remember goes into the state, and what readers see into the commit."""
        if leading is not None and leading.is_undone:
            await self._undo()
        loop = await self.turn_loop()
        self.state.selection = dict(await loop.selection.save_state())
        if loop.termination is not None:
            self.state.termination = dict(await loop.termination.save_state())
        if leading is not None:
            await leading.stage.write()

    async def _undo(self) -> None:
        """The strategy is as it was before it chose; the condition is as it is."""
        if self._loop is not None and self._loop.termination is not None:
            self.state.termination = dict(await self._loop.termination.save_state())
        self._loop = None

    async def choose_again(self) -> None:
        """See ConsultedManager."""
        leading = await self._leading()
        await leading.choose()
        await self.keep(leading)

    async def _forget(self) -> None:
        await (await self.turn_loop()).reset()
        self.forget_turns()
        self.state.marks.clear()
        await self.keep()

    def forget_turns(self) -> None:
        """What comes late of turns before belongs to another conversation, as it were."""
        self.state.called_off.clear()
        self.state.asked = self.state.lost = 0
        self.state.unborn = {}

    def _accepted(self, run_id: str, done: bool) -> Accepted:
        run, queued = self.state.run, len(self.state.queued)
        if run is None:
            return Accepted(run_id=run_id, queued=queued, done=done)
        waiting, is_held = list(self.state.speaking), set(run.held) == set(self.state.speaking)
        return Accepted(
            run_id=run_id, state=run.state, waiting=waiting, is_held=is_held, queued=queued, done=done
        )

    def _address(self, member: str) -> AgentId:
        return member_address(self.id, member)

    def _member(self, address: AgentId | None) -> str:
        return member_name(self.id, address)
