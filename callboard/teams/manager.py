"""The manager of a team as an actor: each message that arrives, and the step of a run that it leads to."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

from pydantic import WithJsonSchema

from callboard.broker import AgentId
from callboard.broker.errors import FencedError, PayloadTooLargeError
from callboard.broker.redis.client.questions import InputStatus
from callboard.broker.redis.operations.inspect import types_with_worker
from callboard.broker.remote_errors import text_of
from callboard.broker.retry import Buried
from callboard.core.cancellation import UNSET
from callboard.core.context import ContextScope, MessageContext
from callboard.core.handlers import RoutedAgent, event, rpc
from callboard.core.people import as_json
from callboard.core.protocol import Request
from callboard.errors import InputError, InputExpiredError, InputWithdrawnError
from callboard.runtime.effects import noting, with_part
from callboard.runtime.execution import run_path

from .budget import not_limited
from .bus_run import Leading, mark_turn, note_answer
from .errors import TeamForkError, TeamMemberError, TeamNotRunError, TeamStateError
from .fork import Forking
from .local_run import LedTeam, Participant
from .loop import TurnLoop, reached
from .member import MemberActor, ShownQuestions
from .outcome import failure_by, turn_answered, unborn_text
from .protocol import (
    BECOME,
    Accepted,
    Answer,
    Become,
    BeginRun,
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
    TimeUp,
    Told,
    TurnFailed,
    asking_id,
    member_address,
    member_name,
    tell_all_of,
)
from .states import dump_team, load_team

if TYPE_CHECKING:
    from callboard.runtime import control
    from callboard.runtime.runtime import RedisAgentRuntime


FIELDS: Final = (
    "turns",
    "last_turn",
    "heard",
    "round_start",
    "selection",
    "termination",
    "called_off",
    "asked",
    "lost",
)
LOGS: Final = ("thread", "context", "marks")


class ForkedManager(RoutedAgent[ManagerState]):
    """Forks its conversation: what it was after a turn becomes a new one, in one commit of the new one's manager.

    That manager takes its own part over and tells its members theirs with the same commit: the new conversation is whole, or
    it is not there. The members have it before anything else is said to them.
    """

    @property
    @abstractmethod
    def team(self) -> LedTeam:
        """The team."""

    @abstractmethod
    def forget_loop(self) -> None:
        """The state was replaced."""

    @rpc
    async def on_fork(self, message: Fork, ctx: MessageContext) -> Accepted:
        """Make another conversation of what this one was."""
        if message.conversation == self.id.key:
            return Accepted(done=False, problem="its own name is taken")
        bus = cast("RedisAgentRuntime", self.runtime)
        try:
            part = await Forking(self.team, self.id, bus.transport.load_state).at(
                message.turn, message.run_id
            )
        except TeamForkError as error:
            return Accepted(done=False, problem=error.reason)
        await reached("fork cut")
        if message.is_cut_only:
            return Accepted(part=part)
        born, other = Born(fork_id=message.fork_id, part=part), AgentId(self.id.type, message.conversation)
        try:
            return await self.send_message(born, other)
        except PayloadTooLargeError:
            return await self.send_message(born, other, claim_check=True)

    @rpc
    async def on_born(self, message: Born, ctx: MessageContext) -> Accepted:
        """Begin with what another conversation was, unless this one has begun."""
        state = self.state
        # guard: a conversation is forked once
        if message.fork_id in state.recent:
            return Accepted()
        if state.recent or state.run is not None or state.last_turn or state.thread:
            return Accepted(done=False, problem=f"the conversation {self.id.key!r} is there already")
        await self._become(message.part)
        self.state.recent = [message.fork_id]
        await reached("fork born")
        return Accepted()

    @event
    async def on_become(self, message: Become, ctx: MessageContext) -> None:
        """The same as a member of a larger team."""
        if self.state.marks:  # a dead letter that comes too late
            raise TeamMemberError(self.id.type, self.team.name, "take over its part", "it has spoken already")
        await self._become(message.part)
        self.state.is_fork = True

    async def find_born(self) -> None:
        """Members of a fork that have taken over their parts since: somebody has replayed their dead letters."""
        for name in list(self.state.unborn):
            address = member_address(self.id, name)
            stored = await cast("RedisAgentRuntime", self.runtime).transport.load_state(
                address.type, address.key
            )
            if json.loads(stored.data or b"{}").get("is_fork"):
                self.state.unborn = {one: why for one, why in self.state.unborn.items() if one != name}

    async def _become(self, part: ConversationPart) -> None:
        state, given = self.state, ManagerState.model_validate({**part.data, **part.logs})
        for field in FIELDS:
            setattr(state, field, getattr(given, field))
        for field in LOGS:
            log = getattr(state, field)
            log.clear()
            log.extend(getattr(given, field))
        self.forget_loop()
        for name, of_member in part.members.items():
            await tell_all_of(self, Become(part=of_member), member_address(self.id, name))

    # For saving and loading

    async def try_to_load(self, name: str, saved: dict[str, Any]) -> None:
        """See whether a member would load its part.

        Raises:
            TeamStateError: It refuses it (a ValueError).
        """
        try:
            await self.ask_member(LoadConversation(state=saved, is_trial=True), name, "load its state")
        except TeamMemberError as error:
            raise TeamStateError(
                self.team.plan.name, f"the member {name!r} refuses its part: {error.reason}"
            ) from error

    async def ask_member(self, order: Request[Accepted], name: str, what: str) -> None:
        """Has a member do something, and waits for it."""
        try:
            accepted: Accepted = await self.send_message(order, member_address(self.id, name))
        except FencedError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {text_of(error)}"
            raise TeamMemberError(self.team.name, name, what, reason) from error
        if accepted.problem:
            raise TeamMemberError(self.team.name, name, what, accepted.problem)


class ConsultedManager(ForkedManager):
    """Asks for another agent of its type, and hears what was answered; see consulting.py."""

    @abstractmethod
    async def choose_again(self) -> None:
        """Let the strategy of the run under way choose, from where it asked."""

    @event
    async def on_consult(self, message: Consult, ctx: MessageContext) -> None:
        """Ask a person for the manager of a conversation, and wait without a process."""
        if ctx.sender is None:
            raise TeamNotRunError(self.id.type, "was told to ask by nobody")
        runtime = cast("RedisAgentRuntime", self.runtime)
        shown = ShownQuestions(runtime, message.run, (*message.inside, 0), message.source)
        # What it is read as only the manager knows.
        answer_type: Any = Annotated[Any, WithJsonSchema(message.answer_schema)]
        answer, status, input_id = "", InputStatus.ANSWERED, ""
        try:
            with ContextScope(noting, shown):
                answer = as_json(
                    await ctx.ask(
                        message.text,
                        name=message.name,
                        choices=message.choices or None,
                        answer_type=answer_type,
                        to=message.to or None,
                        timeout=message.timeout,
                        default=UNSET if message.default is None else json.loads(message.default),
                        details=message.details,
                    )
                )
        except (InputExpiredError, InputWithdrawnError) as error:
            status, input_id = _end_of(error)
        told = Consulted(id=message.id, name=message.name, status=status, answer=answer, input_id=input_id)
        await self.tell(told, ctx.sender)

    @event
    async def on_consulted(self, message: Consulted, ctx: MessageContext) -> None:
        """There is an answer, or there will be none."""
        if note_answer(self.state.run, message):
            await self.choose_again()


def _end_of(error: InputError) -> tuple[InputStatus, str]:
    is_late = isinstance(error, InputExpiredError)
    return (InputStatus.EXPIRED if is_late else InputStatus.WITHDRAWN), getattr(error, "input_id", "")


BUSY: Final = "a run is under way"


class SavedManager(ConsultedManager):
    """Saves its conversation with what the members remember, and loads it."""

    @abstractmethod
    async def turn_loop(self) -> TurnLoop:
        """The turn loop as the last commit left it."""

    @abstractmethod
    async def made(self, state: ManagerState) -> TurnLoop:
        """A turn loop over another state."""

    @abstractmethod
    def forget_turns(self) -> None:
        """What comes late of turns before belongs to another conversation, as it were."""

    @abstractmethod
    async def keep(self) -> None:
        """What strategy and condition remember goes into the state."""

    @rpc
    async def on_save(self, message: SaveConversation, ctx: MessageContext) -> Saved:
        """The state of the team and of its members, as they were committed: nobody who is speaking is waited for."""
        loop = await self.turn_loop()
        states = {one.name: await self._state_of(one) for one in self.team.participants}
        state = await dump_team(self.team.plan, self.state, loop.selection, loop.termination, states)
        return Saved(state=state)

    async def _state_of(self, member: Participant) -> dict[str, Any]:
        if isinstance(member, LedTeam):
            saved: Saved = await self.send_message(SaveConversation(), member_address(self.id, member.name))
            return saved.state
        address = member_address(self.id, member.name)
        stored = await self._bus.transport.load_state(address.type, address.key)
        return await MemberActor(member).saved(stored)

    @property
    def _bus(self) -> RedisAgentRuntime:
        return cast("RedisAgentRuntime", self.runtime)

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
        loop = await (self.made(ManagerState()) if message.is_trial else self.turn_loop())
        plan = self.team.plan
        states = await load_team(plan, loop.state, loop.selection, loop.termination, message.state)
        for name, saved in states.items():
            await self.try_to_load(name, saved)
        if message.is_trial:
            return Accepted()
        for name, saved in states.items():
            await self.ask_member(LoadConversation(state=saved), name, "load its state")
        self.forget_turns()
        await mark_turn(self.state, loop, None, self._bus.settings.fork_turns)
        await self.keep()
        return Accepted()


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
    async def on_control(self, message: ControlRun, ctx: MessageContext) -> Accepted:
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
        parent = ParentTeam(manager=str(ctx.sender), turn=message.turn, inside=inside)
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
