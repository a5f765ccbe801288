"""What was recorded of a conversation, and what is made of it: usage, cassettes, and other conversations."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from copy import copy
from typing import TYPE_CHECKING, Any, Self

from callboard.broker import AgentId
from callboard.broker.redis.store import RedisStore
from callboard.models.run_usage import RunUsage
from callboard.models.usage import UsageLedger
from callboard.testing.cassette import Cassette

from .errors import TeamForkError
from .exporting import cassette_of
from .forking import marks_in
from .given_ids import check_conversation
from .marks import TurnMark
from .orders import Accepted, Born, Fork, stream_of

if TYPE_CHECKING:
    from callboard.runtime.runtime import RedisAgentRuntime


class Records:
    """The part of a TeamClient that is about what there was."""

    runtime: RedisAgentRuntime
    team: str
    conversation: str
    _address: AgentId

    def entries(self, run_id: str) -> AsyncGenerator[Any, None]:
        """The entries of a run's stream."""
        raise NotImplementedError

    def beside(self, conversation: str) -> Self:
        """Another conversation of the team."""
        other = copy(self)
        other.conversation, other._address = conversation, AgentId(self.team, conversation)
        return other

    async def usage(self, run_id: str) -> RunUsage:
        """What a run has used until now, by agent and by model: of its members, of who chooses speakers, of nested teams.

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
            TeamRunUnknownError: The conversation never had it, or its events are not kept any more (a LookupError).
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
        order = Fork(fork_id=fork_id, conversation=conversation, turn=at, run_id=run_id, is_cut_only=True)
        accepted: Accepted = await self.runtime.send_message(order, self._address, claim_check=True)
        if accepted.part is not None:  # else the manager is an older one, and has seen to it
            born, other = Born(fork_id=fork_id, part=accepted.part), AgentId(self.team, conversation)
            accepted = await self.runtime.send_message(born, other, claim_check=True)
        if accepted.problem:
            where = "" if at is None else f"after turn {at}"
            raise TeamForkError(self.team, self.conversation, where, accepted.problem)
        return self.beside(conversation)
