"""The manager of a team, as far as it forks conversations."""

from __future__ import annotations

import json
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final, cast

from callboard.broker import AgentId
from callboard.broker.encoding.remote_errors import text_of
from callboard.broker.errors import FencedError, PayloadTooLargeError
from callboard.context import MessageContext
from callboard.handlers import event, rpc
from callboard.requests import Request
from callboard.routed import RoutedAgent

from .addresses import member_address
from .errors import TeamForkError, TeamMemberError, TeamStateError
from .forking import Forking
from .led import LedTeam
from .manager_state import ManagerState
from .orders import Accepted, Become, Born, Fork, Load
from .parts import Part
from .sizes import tell_all_of
from .steps import reached

if TYPE_CHECKING:
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

    async def _become(self, part: Part) -> None:
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
            await self.ask_member(Load(state=saved, is_trial=True), name, "load its state")
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
