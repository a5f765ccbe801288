"""The manager of a team as an actor: each message that arrives, and the step of a run that it leads to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from callboard.broker import AgentId
from callboard.broker.errors import FencedError
from callboard.broker.redis.operations.inspect import types_with_worker
from callboard.broker.remote_errors import text_of
from callboard.broker.retry import Buried
from callboard.core.agent import Messaging
from callboard.core.context import MessageContext
from callboard.core.handlers import RoutedAgent, event, message_handler, rpc
from callboard.core.protocol import Request
from callboard.runtime.effects import with_part
from callboard.runtime.execution import run_path

from .budget import TimeUp, not_limited
from .bus_run import RunSteps, act, consult, note_answer
from .errors import TeamForkError, TeamMemberError, TeamStateError
from .fork import Forks, mark_turn
from .loop import LedTeam, Participant, TurnLoop, reached
from .member import MemberActor
from .notices import RunNotice, Wake, waiting_in, wake
from .outcome import failure_by, turn_answered, unborn_text
from .protocol import (
    BECOME,
    Accepted,
    Act,
    Answer,
    Become,
    Born,
    Consult,
    Consulted,
    ControlRun,
    ConversationPart,
    CurrentRun,
    Describe,
    Forget,
    Fork,
    LoadConversation,
    ManagerState,
    ParentTeam,
    ResetConversation,
    SaveConversation,
    Saved,
    Speak,
    StartRun,
    Told,
    TurnFailed,
    asking_id,
    member_address,
    member_name,
)
from .states import MemberMemory, dump_team, load_team

if TYPE_CHECKING:
    from callboard.runtime import control
    from callboard.runtime.runtime import RedisAgentRuntime


RECENT: Final = 100  # runs whose ids are remembered
BUSY: Final = "a run is under way"
IDLE: Final = "no run is under way"


class Members:
    """The members of a team in one conversation, as its manager reaches them.

    Args:
        manager: Of the conversation.
        team: The team.

    Attributes:
        teams: Names of the members that are teams.
    """

    def __init__(self, manager: Messaging, team: LedTeam) -> None:
        self.teams = frozenset(member.name for member in team.participants if isinstance(member, LedTeam))
        self._manager = manager
        self._team = team

    def address(self, name: str) -> AgentId:
        """Address of a member."""
        return member_address(self._manager.id, name)

    def name(self, address: AgentId | None) -> str:
        """Name of the member that has an address; "" when it is none of the team."""
        return member_name(self._manager.id, address)

    async def ask(self, order: Request[Accepted], name: str, what: str) -> None:
        """Have a member do something, and wait for it.

        Args:
            order: What it is to do.
            name: Its name.
            what: The same in words, for the error.

        Raises:
            TeamMemberError: It can't (a RuntimeError).
        """
        try:
            accepted: Accepted = await self._manager.send_message(order, self.address(name))
        except FencedError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {text_of(error)}"
            raise TeamMemberError(self._team.name, name, what, reason) from error
        if accepted.problem:
            raise TeamMemberError(self._team.name, name, what, accepted.problem)

    async def missing(self, names: Iterable[str]) -> list[str]:
        """Those of these members that no process runs, also of a team among them."""
        runtime = cast("RedisAgentRuntime", self._manager.runtime)
        served, missing = await types_with_worker(runtime.transport), []
        for name in names:
            address = self.address(name)
            if address.type not in served:
                missing.append(name)
            elif name in self.teams:
                inner: Accepted = await self._manager.send_message(Describe(), address)
                missing += [f"{name}.{one}" for one in inner.missing]
        return missing

    async def states(self) -> dict[str, dict[str, Any]]:
        """The state of each, as it was committed."""
        return {one.name: await self._state_of(one) for one in self._team.participants}

    async def _state_of(self, member: Participant) -> dict[str, Any]:
        address = self.address(member.name)
        if isinstance(member, LedTeam):
            saved: Saved = await self._manager.send_message(SaveConversation(), address)
            return saved.state
        runtime = cast("RedisAgentRuntime", self._manager.runtime)
        stored = await runtime.transport.load_state(address.type, address.key)
        return await MemberActor(member).saved(stored)

    async def load(self, states: dict[str, dict[str, Any]], *, is_trial: bool) -> None:
        """Have each take over a state, after all have tried to; where one refuses its own, nothing changes.

        Raises:
            TeamStateError: A member refuses its part (a ValueError).
            TeamMemberError: A member can't load what it could a moment before (a RuntimeError).
        """
        for name, saved in states.items():
            try:
                await self.ask(LoadConversation(state=saved, is_trial=True), name, "load its state")
            except TeamMemberError as error:
                problem = f"the member {name!r} refuses its part: {error.reason}"
                raise TeamStateError(self._team.plan.name, problem) from error
        for name, saved in () if is_trial else states.items():
            await self.ask(LoadConversation(state=saved), name, "load its state")


class TeamManager(RoutedAgent[ManagerState]):
    """Leads the conversations of one team; each has an agent of its own, whose key is the conversation's id.

    It never waits for a member: who is to speak is told so, and tells what it has said. So a message is all that is under
    way, and when a process dies one handler is repeated.

    Args:
        team: The team.
        heard_by: Agent types that hear of every run that a client begins: those of the moment, so that an app may name
            them after the team.
    """

    def __init__(self, team: LedTeam, heard_by: Sequence[str] = ()) -> None:
        super().__init__(team.description)
        self._team = team
        self._heard_by = heard_by
        self._members = Members(self, team)
        self._forks = Forks(self, team)
        self._loop: TurnLoop | None = None
        self._control: control.Control | None = None

    # From clients

    @message_handler
    async def on_start(self, message: StartRun, ctx: MessageContext) -> Accepted:
        """A task. One that was told, not asked for, waits for no answer: where it is refused, the run's stream says why."""
        await reached("run asked for")
        await self._miss_members()
        if self.state.unborn:
            await self._forks.find_born()
        run_id, run = message.run_id, self.state.run
        if run_id in self.state.recent:
            await self._wake_late(message)
            return Accepted(run_id=run_id, state="working")
        if message.budget is not None and message.budget.is_for_models:
            problem = not_limited(self._team.participants)
            if problem:
                return await self._refuse(message, problem)
        if run is not None and message.if_busy == "reject":
            return Accepted(run_id=run.run_id, state=run.state, done=False, problem=BUSY)
        self.state.recent = [*self.state.recent[-RECENT:], run_id]
        if run is not None and message.if_busy == "enqueue":
            self.state.queued = [*self.state.queued, message]
            return Accepted(run_id=run_id, state="queued")
        steps = await self._run_steps()
        if run is not None:
            await steps.interrupt_for(message)
            problem = ""
        else:
            problem = await steps.start(message)
        await self._keep(steps)
        return Accepted(run_id=run_id, state="working", done=not problem, problem=problem)

    async def _refuse(self, order: StartRun, problem: str) -> Accepted:
        """A handler that waits for the run is not answered otherwise."""
        if waiting_in(order.hearer):
            steps = await self._run_steps()
            await steps.refuse(order, problem)
            await self._keep(steps)
        return Accepted(run_id=order.run_id, done=False, problem=problem)

    async def _wake_late(self, order: StartRun) -> None:
        """A handler that waits for a run which was begun without it goes on, and reads that run to its end."""
        input_id = waiting_in(order.hearer)
        known = [one for one in (self.state.run, *self.state.queued) if one is not None]
        if input_id and not any((one.run_id, one.hearer) == (order.run_id, order.hearer) for one in known):
            notice = RunNotice(
                team=self.id.type, conversation=self.id.key, run_id=order.run_id, state="completed"
            )
            await self.tell(Wake(input_id=input_id, notice=notice), self.id)

    @message_handler
    async def on_control(self, message: ControlRun, ctx: MessageContext) -> Accepted:
        """Pause, resume, stop, abort. An order that was told, not asked for, is one whose caller did not wait any longer."""
        await self._miss_members()
        run = self.state.run
        if message.run_id and (run is None or run.run_id != message.run_id):
            return await self._control_waiting(message)
        if run is None:
            return Accepted(done=False, problem=IDLE)
        steps = await self._run_steps()
        orders: dict[str, Callable[[CurrentRun, bool], Awaitable[bool]]] = {
            "pause": steps.pause,
            "resume": steps.resume,
            "stop": steps.stop,
            "abort": steps.abort,
            "step": partial(steps.step, turn=message.turn),
        }
        done = await orders[message.what](run, message.now)
        await self._keep(steps)
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
        speaking = self.state.speaking
        missing = await self._members.missing(speaking) if speaking else []
        return described.model_copy(update={"missing": missing})

    async def _control_waiting(self, message: ControlRun) -> Accepted:
        """An order to a run that is not under way: it waits, or has ended."""
        is_waiting = any(order.run_id == message.run_id for order in self.state.queued)
        if message.what == "step" and message.now:
            self.state.queued = [
                order.model_copy(update={"step": False}) if order.run_id == message.run_id else order
                for order in self.state.queued
            ]
        if not is_waiting or message.what != "abort":
            return Accepted(run_id=message.run_id, done=False, problem="" if is_waiting else IDLE)
        steps = await self._run_steps()
        await steps.abort_queued(message.run_id)
        await self._keep(steps)
        return Accepted(run_id=message.run_id)

    async def _miss_members(self) -> None:
        """End a run in which one is to speak that is no member any more: the team was changed meanwhile."""
        if not self.state.speaking:
            return
        names = {member.name for member in self._team.plan.members}
        for name in self.state.speaking.keys() - names:
            text = f"{name!r} was asked to speak, and is no member of the team any more"
            steps = await self._run_steps()
            await steps.fail(TurnFailed(turn=0, error_type="TeamDeclarationError", text=text, where=name))
            await self._keep(steps)
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
            await self._members.ask(message, member.name, "forget the conversation")
        await self._forget()
        return Accepted()

    @event
    async def on_time_up(self, message: TimeUp, ctx: MessageContext) -> None:
        """The time of a run's budget is over, if that run is under way."""
        await self._miss_members()
        steps = await self._run_steps()
        await steps.time_up(message.run_id)
        await self._keep(steps)

    @rpc
    async def on_save(self, message: SaveConversation, ctx: MessageContext) -> Saved:
        """The state of the team and of its members at one moment: without the turns that are under way."""
        run = self.state.run
        if run is not None:
            # A member commits its answer before it is heard here. Saved between the two, it would remember what it said, and
            # the thread would not have it: loaded, it would say it twice, or never. Marks know what each had before.
            try:
                part = await self._forks.before_turn(run)
            except TeamForkError as error:
                return Saved(problem=error.reason)
            return Saved(state=await dump_part(self._team, part))
        loop, states = await self._turn_loop(), await self._members.states()
        state = await dump_team(self._team.plan, self.state, loop.selection, loop.termination, states)
        return Saved(state=state)

    @rpc
    async def on_load(self, message: LoadConversation, ctx: MessageContext) -> Accepted:
        """Take over a saved state, or try to; where a member refuses its own, nothing changes.

        Raises:
            TeamStateError: It does not fit the team (a ValueError).
            TeamMemberError: A member can't load what it could a moment before (a RuntimeError).
        """
        run = self.state.run
        if run is not None:
            return Accepted(run_id=run.run_id, done=False, problem=BUSY)
        loop = await (self.made(ManagerState()) if message.is_trial else self._turn_loop())
        plan = self._team.plan
        states = await load_team(plan, loop.state, loop.selection, loop.termination, message.state)
        await self._members.load(states, is_trial=message.is_trial)
        if message.is_trial:
            return Accepted()
        self._forget_turns()
        await mark_turn(self.state, loop, None, self._bus.settings.fork_turns)
        await self._keep()
        return Accepted()

    # Forks

    @rpc
    async def on_fork(self, message: Fork, ctx: MessageContext) -> Accepted:
        """Give what the conversation was, for another one to begin with."""
        return await self._forks.cut(message)

    @rpc
    async def on_born(self, message: Born, ctx: MessageContext) -> Accepted:
        """Begin with what another conversation was, unless this one has begun."""
        accepted = await self._forks.born(message)
        self._loop = None  # the state may be another one
        return accepted

    @event
    async def on_become(self, message: Become, ctx: MessageContext) -> None:
        """The same as a member of a larger team."""
        await self._forks.become(message)
        self._loop = None

    # Questions of the strategy to people

    @event
    async def on_consult(self, message: Consult, ctx: MessageContext) -> None:
        """Ask a person for the manager of a conversation, and wait without a process."""
        await consult(self, message, ctx)

    @event
    async def on_consulted(self, message: Consulted, ctx: MessageContext) -> None:
        """There is an answer, or there will be none: the strategy chooses, from where it asked."""
        if note_answer(self.state.run, message):
            steps = await self._run_steps()
            await steps.choose()
            await self._keep(steps)

    @event
    async def on_wake(self, message: Wake, ctx: MessageContext) -> None:
        """A handler waits for a run whose end was committed a moment ago."""
        await wake(self._bus, message)

    @event
    async def on_act(self, message: Act, ctx: MessageContext) -> None:
        """Members are to be interrupted or cancelled, or may speak again, for what was committed a moment ago."""
        await reached("members to hear")
        if self._control is None:  # made once: it draws a random name
            self._control = self._bus.control
        await act(self._control, message)
        await reached("members heard")

    # From a larger team

    @event
    async def on_speak(self, message: Speak, ctx: MessageContext) -> None:
        """It is this team's turn in a larger one."""
        await reached("run asked for")
        if self.state.unborn:
            await self._forks.find_born()
        inside = (*message.inside, message.turn)
        parent = ParentTeam(manager=str(ctx.sender), turn=message.turn, inside=inside)
        steps = await self._run_steps()
        if self.state.run is not None:
            await steps.abort(self.state.run, True)
        path = with_part(run_path() or message.run, f"/{message.turn}")
        run = CurrentRun(
            run_id=ctx.message_id,
            stream=message.run,
            path=path,
            parent=parent,
            record=message.record,
            hearer=message.hearer,
            heard_by=message.heard_by,
        )
        await steps.take_turn(run, message.unheard_after(self.state.asked))
        await self._keep(steps)

    @event
    async def on_forget(self, message: Forget, ctx: MessageContext) -> None:
        """The larger team begins anew."""
        if self.state.run is not None:
            steps = await self._run_steps()
            await steps.abort(self.state.run, True)
            await self._keep(steps)
        for member in self._team.plan.members:
            await self.tell(Forget(turn=self.state.last_turn), self._members.address(member.name))
        lost = max(message.turn, self.state.asked)
        await self._forget()
        self.state.lost = lost

    @event
    async def on_told(self, message: Told, ctx: MessageContext) -> None:
        """The larger team pauses or goes on, or its run was cancelled."""
        run = self.state.run
        if run is not None and run.parent is not None:
            steps = await self._run_steps()
            orders = {"pause": steps.pause, "resume": steps.resume, "abort": steps.abort}
            await orders[message.what](run, message.now)
            await self._keep(steps)

    # From members

    @event
    async def on_answer(self, message: Answer, ctx: MessageContext) -> None:
        """A member has spoken."""
        await reached("answer heard")
        member = self._members.name(ctx.sender)
        steps = await self._run_steps()
        await steps.hear(self.state.run, member, message)
        await self._keep(steps)

    @event
    async def on_turn_failed(self, message: TurnFailed, ctx: MessageContext) -> None:
        """A member can't answer."""
        await self._turn_failed(self._members.name(ctx.sender), message)

    @event
    async def on_buried(self, message: Buried, ctx: MessageContext) -> None:
        """A message from here could not be handled: a member's turn is a dead letter, or an answer to a larger team."""
        recipient = AgentId.from_str(message.recipient)
        run = self.state.run
        if run is not None and run.asking and message.message_id == run.asking:
            steps = await self._run_steps()
            await steps.fail(failure_by(message, self._team.plan.name, 0))
            await self._keep(steps)
            return
        member = self._members.name(recipient)
        if not member:
            turn = turn_answered(message, self.state.asked)
            await self.tell(failure_by(message, self._team.plan.name, turn), recipient)
            return
        if message.type == BECOME:
            await self._not_born(member, message)
            return
        speaking = self.state.speaking.get(member)
        # A `Speak` that became a dead letter is told of late, when the member may have a new turn, perhaps in another run.
        # That turn, which is well, would fail for the old one.
        # guard: a turn fails with its own dead letter only
        if speaking is not None and message.message_id == self._asked_by(speaking.turn):
            await self._turn_failed(member, failure_by(message, member, speaking.turn))

    async def _not_born(self, member: str, message: Buried) -> None:
        """A member could not take over its part in a fork: nothing is said in it as long as that is so."""
        self.state.unborn = {**self.state.unborn, member: message.error or message.reason}
        if self.state.run is not None:
            text, where = unborn_text(self.state.unborn), self._team.plan.name
            steps = await self._run_steps()
            await steps.fail(TurnFailed(turn=0, error_type="TeamForkError", text=text, where=where))
            await self._keep(steps)

    def _asked_by(self, turn: int) -> str:
        return "" if self.state.run is None else asking_id(self.id, self.state.run.run_id, turn)

    async def _turn_failed(self, member: str, failed: TurnFailed) -> None:
        speaking = self.state.speaking.get(member)
        if self.state.run is not None and speaking is not None and speaking.turn == failed.turn:
            steps = await self._run_steps()
            await steps.fail(failed)
            await self._keep(steps)

    # Parts

    @property
    def _bus(self) -> RedisAgentRuntime:
        return cast("RedisAgentRuntime", self.runtime)

    async def _run_steps(self) -> RunSteps:
        settings = self._bus.settings
        loop = await self._turn_loop()
        return RunSteps(self, self.state, loop, self._members.teams, settings, self._heard_by)

    async def _turn_loop(self) -> TurnLoop:
        """The turn loop as the last commit left it, wherever that was."""
        # The state is another object after each commit, and after a message that another process has handled. A loop over
        # the old one would choose without the last turns, and its commit would be made of two pasts.
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

    async def _keep(self, steps: RunSteps | None = None) -> None:
        """Put the memory of strategy and condition into the state, and the entries for readers into the commit."""
        if steps is not None and steps.is_undone:
            await self._undo()
        loop = await self._turn_loop()
        self.state.selection = dict(await loop.selection.save_state())
        if loop.termination is not None:
            self.state.termination = dict(await loop.termination.save_state())
        if steps is not None:
            await steps.write()

    async def _undo(self) -> None:
        """The strategy is as it was before it chose; the condition is as it is."""
        if self._loop is not None and self._loop.termination is not None:
            self.state.termination = dict(await self._loop.termination.save_state())
        self._loop = None

    async def _forget(self) -> None:
        await (await self._turn_loop()).reset()
        self._forget_turns()
        self.state.marks.clear()
        await self._keep()

    def _forget_turns(self) -> None:
        """Take no answer of turns before, which may come late, for one of this conversation."""
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


async def dump_part(team: LedTeam, part: ConversationPart | None) -> dict[str, Any]:
    """The part that a team had in a conversation, as plain data.

    Args:
        team: The team.
        part: It; None: it had none.
    """
    part = part or ConversationPart()
    state = ManagerState.model_validate({**part.data, **part.logs})
    states: dict[str, dict[str, Any]] = {}
    for member in team.participants:
        own = part.members.get(member.name)
        if isinstance(member, LedTeam):
            states[member.name] = await dump_part(member, own)
        else:
            memory = MemberMemory() if own is None else MemberMemory.model_validate({**own.data, **own.logs})
            states[member.name] = await MemberActor(member).saved_of(memory)
    loop = await TeamManager(team).made(state)
    return await dump_team(team.plan, state, loop.selection, loop.termination, states)
