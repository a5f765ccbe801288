"""The manager of a team, as far as its conversations are saved and loaded."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final, cast

from callboard.context import MessageContext
from callboard.handlers import rpc

from .addresses import member_address
from .consulted import ConsultedManager
from .led import LedTeam
from .local import Participant
from .loop import TurnLoop
from .manager_state import ManagerState
from .marking import mark_turn
from .member import MemberActor
from .orders import Accepted, Load, Save, Saved
from .saving import dump_team, load_team

if TYPE_CHECKING:
    from callboard.runtime.runtime import RedisAgentRuntime

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
    async def on_save(self, message: Save, ctx: MessageContext) -> Saved:
        """The state of the team and of its members, as they were committed: nobody who is speaking is waited for."""
        loop = await self.turn_loop()
        states = {one.name: await self._state_of(one) for one in self.team.participants}
        state = await dump_team(self.team.plan, self.state, loop.selection, loop.termination, states)
        return Saved(state=state)

    async def _state_of(self, member: Participant) -> dict[str, Any]:
        if isinstance(member, LedTeam):
            saved: Saved = await self.send_message(Save(), member_address(self.id, member.name))
            return saved.state
        address = member_address(self.id, member.name)
        stored = await self._bus.transport.load_state(address.type, address.key)
        return await MemberActor(member).saved(stored)

    @property
    def _bus(self) -> RedisAgentRuntime:
        return cast("RedisAgentRuntime", self.runtime)

    @rpc
    async def on_load(self, message: Load, ctx: MessageContext) -> Accepted:
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
            await self.ask_member(Load(state=saved), name, "load its state")
        self.forget_turns()
        await mark_turn(self.state, loop, None, self._bus.settings.fork_turns)
        await self.keep()
        return Accepted()
