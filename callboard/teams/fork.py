"""Forks: the mark of each turn, a conversation as it was after one, and the new one that begins with that.

Logs only grow, so a mark says how long they were after a turn, and holds the small rest. To fork, the manager reads what its
agents have stored, and cuts it there.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from pydantic import BaseModel

from callboard.broker import AgentId
from callboard.broker.redis.client.states import StoredState
from callboard.core.handlers import RoutedAgent

from .errors import TeamForkError, TeamMemberError
from .loop import LedTeam, TurnLoop, reached
from .protocol import (
    Accepted,
    Become,
    Born,
    ConversationPart,
    CurrentRun,
    Fork,
    ManagerState,
    member_address,
    tell_all_of,
)
from .states import Kept, MemberMark, MemberMemory, TurnMark

if TYPE_CHECKING:
    from callboard.runtime.runtime import RedisAgentRuntime


async def mark_turn(
    state: ManagerState, loop: TurnLoop, run: CurrentRun | None, most: int, speakers: Sequence[str] = ()
) -> None:
    """Add the mark of a turn that has ended, or of what was loaded.

    Args:
        state: What the manager remembers.
        loop: Its turn loop.
        run: The run that it belongs to; None: none.
        most: How many marks are kept, the newest.
        speakers: Who spoke.
    """
    asked = run.parent.turn if run is not None and run.parent is not None else 0
    if state.context.dropped or run is None:
        state.marks.clear()  # the logs have lost what the marks before were about
        state.lost = max(0, asked - 1)
    termination = None if loop.termination is None else dict(await loop.termination.save_state())
    state.marks.append(
        TurnMark(
            turn=state.last_turn,
            by=tuple(speakers),
            run_id="" if run is None else run.run_id,
            asked=asked,
            thread=len(state.thread),
            context=len(state.context),
            turns=state.turns,
            heard=dict(state.heard),
            round_start=state.round_start,
            selection=dict(await loop.selection.save_state()),
            termination=termination,
            called_off={name: list(turns) for name, turns in state.called_off.items() if turns},
        )
    )
    if len(state.marks) > most:
        state.marks.trim(keep=most)
        state.lost = max(0, state.marks[0].asked - 1)


MOST_KEPT: Final = 200  # different values that an agent had saved beside its context, the newest
MOST_SAVED: Final = 16_000  # characters of one that is kept


def begin_member_marks(state: MemberMemory, lost: int) -> None:
    """Marks of turns up to this one do not hold any more."""
    state.marks.clear()
    state.kept.clear()
    state.lost = lost


def mark_member(state: MemberMemory, turn: int, most: int, is_taken: bool = True) -> None:
    """Add the mark of a turn: what the member remembers now is what it had after it, and after those that others take next.

    Args:
        state: The memory of the member.
        turn: Number of the turn.
        most: How many marks are kept, the newest.
        is_taken: Whether it was this member's turn.
    """
    number, is_nothing = _number_of_saved(state), state.saved is None
    state.marks.append(
        MemberMark(turn=turn, context=len(state.context), kept=number, is_whole=is_nothing, is_taken=is_taken)
    )
    if len(state.marks) > most:
        state.marks.trim(keep=most)
        state.lost = state.marks[0].turn - 1


def _number_of_saved(state: MemberMemory) -> int:
    """Under which number forks find what is saved now; 0: nothing is, or too much for every turn."""
    kept, saved = state.kept, state.saved
    if saved is None:
        return 0
    if not kept or kept[-1].saved != saved:
        if len(json.dumps(saved, default=str)) > MOST_SAVED:
            return 0
        kept.append(Kept(number=kept[-1].number + 1 if kept else 1, saved=saved))
        kept.trim(keep=MOST_KEPT)
    return kept[-1].number


def take_over(state: MemberMemory, part: ConversationPart) -> None:
    """A member of a fork has the part that it had in the conversation of which it is one."""
    given = MemberMemory.model_validate({**part.data, **part.logs})
    state.saved, state.asked, state.lost = given.saved, given.asked, given.lost
    state.is_fork = True
    _replace_logs(state, given, MEMBER_LOGS)


Read: TypeAlias = Callable[[str, str], Awaitable[StoredState]]


class PastConversation:
    """A conversation at one of its turns. It is only read, and no member that is speaking is waited for.

    Args:
        team: The team.
        manager: Address of its manager in the conversation.
        read: Reads a stored state by agent type and key.
    """

    def __init__(self, team: LedTeam, manager: AgentId, read: Read) -> None:
        self._team = team
        self._manager = manager
        self._read = read

    async def at(self, turn: int | None, run_id: str) -> ConversationPart:
        """The conversation after a turn, or after the last turn of a run; with neither after its last one.

        Raises:
            TeamForkError: It can't be forked there (a ValueError).
        """
        stored = await self._read(self._manager.type, self._manager.key)
        marks = marks_in(stored)
        fits = [
            number
            for number, mark in enumerate(marks)
            if (turn is None or mark.turn == turn) and (not run_id or mark.run_id == run_id)
        ]
        if not fits:
            where = (
                f"after turn {turn}" if turn is not None else f"after the run {run_id!r}" if run_id else ""
            )
            raise TeamForkError(self._manager.type, self._manager.key, where, _known(marks))
        return await self._part(stored, marks, fits[-1])

    async def under_way(self, run: CurrentRun) -> ConversationPart:
        """The conversation before the turns that are under way, with the task of their run.

        Raises:
            TeamForkError: What a member remembered then is not kept: the turn has to end first (a ValueError).
        """
        stored = await self._read(self._manager.type, self._manager.key)
        marks = marks_in(stored)
        if marks:
            part = await self._part(stored, marks, len(marks) - 1)
            if marks[-1].run_id == run.run_id:
                return part
        else:
            last = int(json.loads(stored.data or b"{}").get("last_turn", 0)) - run.asked
            data = {"last_turn": last, "lost": _lost(stored)}
            part = ConversationPart(data=data, members=await self._members(last))
        return part.model_copy(
            update={"logs": {**part.logs, "thread": _items(stored.logs, "thread", run.first)}}
        )

    async def _within(self, turn: int) -> ConversationPart | None:
        """The part that this team, a member, had after a turn of the larger one; None: it had not begun."""
        stored = await self._read(self._manager.type, self._manager.key)
        marks = marks_in(stored)
        fits = [number for number, mark in enumerate(marks) if mark.asked <= turn]
        if not fits:
            self._check_kept(_lost(stored), self._manager, turn)
            return None
        return await self._part(stored, marks, fits[-1])

    async def _part(self, stored: StoredState, marks: Sequence[TurnMark], number: int) -> ConversationPart:
        mark = marks[number]
        data = mark.model_dump(mode="json", exclude={"by", "run_id", "turn", "thread", "context"})
        ends = {"thread": mark.thread, "context": mark.context, "marks": number + 1}
        return ConversationPart(
            data={**data, "last_turn": mark.turn, "lost": _lost(stored)},
            logs={field: _items(stored.logs, field, end) for field, end in ends.items()},
            members=await self._members(mark.turn),
        )

    async def _members(self, turn: int) -> dict[str, ConversationPart]:
        members = {one.name: await self._member(one, turn) for one in self._team.participants}
        return {name: part for name, part in members.items() if part is not None}

    async def _member(self, member: Any, turn: int) -> ConversationPart | None:
        address = member_address(self._manager, member.name)
        if isinstance(member, LedTeam):
            return await PastConversation(member, address, self._read)._within(turn)
        stored = await self._read(address.type, address.key)
        marks = [MemberMark.model_validate_json(item) for item in stored.logs.get("marks", ())]
        fits = [number for number, mark in enumerate(marks) if mark.turn <= turn]
        if not fits:
            self._check_kept(_lost(stored), address, turn)
            return None
        number, kept = fits[-1], [Kept.model_validate_json(item) for item in stored.logs.get("kept", ())]
        mark = marks[number]
        found = [one for one in kept if one.number == mark.kept]
        if found:
            saved: Any = found[0].saved
        elif mark.is_whole:
            saved = None
        elif number + 1 == len(marks):
            saved = json.loads(stored.data or b"{}").get("saved")
        else:
            reason = _not_kept(address)
            raise TeamForkError(self._manager.type, self._manager.key, f"after turn {turn}", reason)
        last_kept = max(one.kept for one in marks[: number + 1])
        ends = {
            "context": mark.context,
            "marks": number + 1,
            "kept": sum(one.number <= last_kept for one in kept),
        }
        return ConversationPart(
            data={
                "asked": mark.turn if mark.is_taken else 0,
                "lost": _lost(stored),
                **({} if saved is None else {"saved": saved}),
            },
            logs={field: _items(stored.logs, field, end) for field, end in ends.items()},
        )

    def _check_kept(self, lost: int, address: AgentId, turn: int) -> None:
        # A member may forget, or trim its marks, between the turn and the fork. Without a mark it looks like one that had
        # not spoken yet: the fork would go on, with a member that has lost its memory.
        # guard: a member that does not know any more what it remembered is not taken for a new one
        if turn <= lost:
            reason = f"{address.type!r} does not know any more what it remembered then: it has forgotten it, or trimmed it"
            raise TeamForkError(self._manager.type, self._manager.key, f"after turn {turn}", reason)


def marks_in(stored: StoredState) -> list[TurnMark]:
    """The turns of a manager's stored state that a fork may begin after, oldest first."""
    return [TurnMark.model_validate_json(item) for item in stored.logs.get("marks", ())]


def _lost(stored: StoredState) -> int:
    return int(json.loads(stored.data or b"{}").get("lost", 0))


def _items(logs: Mapping[str, Sequence[bytes]], field: str, end: int) -> list[Any]:
    return [json.loads(item) for item in logs.get(field, ())[:end]]


def _not_kept(address: AgentId) -> str:
    return f"what {address.type!r} remembered beside its context is not kept: it was too large, or has changed too often"


def _known(marks: Sequence[TurnMark]) -> str:
    if not marks:
        return "no turn of it has ended yet"
    turns = ", ".join(str(mark.turn) for mark in marks[-10:])
    return f"its last turns are {turns}"


MANAGER_FIELDS: Final = (
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
MANAGER_LOGS: Final = ("thread", "context", "marks")
MEMBER_LOGS: Final = ("context", "marks", "kept")


def _replace_logs(state: BaseModel, given: BaseModel, logs: Sequence[str]) -> None:
    for field in logs:
        log = getattr(state, field)
        log.clear()
        log.extend(getattr(given, field))


class Forks:
    """The forks of a conversation: its manager cuts it at a turn, and that of the new one begins with what was cut out.

    The new manager takes its own part over and tells its members theirs with the same commit: the new conversation is whole,
    or it is not there. The members have it before anything else is said to them.

    Args:
        manager: Of the conversation.
        team: The team.
    """

    def __init__(self, manager: RoutedAgent[ManagerState], team: LedTeam) -> None:
        self._manager = manager
        self._team = team

    async def cut(self, order: Fork) -> Accepted:
        """The conversation at a turn, for another one to begin with."""
        manager = self._manager
        if order.conversation == manager.id.key:
            return Accepted(done=False, problem="its own name is taken")
        try:
            past = PastConversation(self._team, manager.id, self._read)
            part = await past.at(order.turn, order.run_id)
        except TeamForkError as error:
            return Accepted(done=False, problem=error.reason)
        await reached("fork cut")
        return Accepted(part=part)

    async def before_turn(self, run: CurrentRun) -> ConversationPart:
        """The conversation before the turns that are under way; see `PastConversation.under_way`."""
        return await PastConversation(self._team, self._manager.id, self._read).under_way(run)

    async def born(self, order: Born) -> Accepted:
        """Begin with what another conversation was, unless this one has begun."""
        state = self._manager.state
        # The client sends the order again when its answer was lost. The conversation may have gone on by then: it would be
        # set back to its beginning.
        # guard: a conversation is forked once
        if order.fork_id in state.recent:
            return Accepted()
        if state.recent or state.run is not None or state.last_turn or state.thread:
            problem = f"the conversation {self._manager.id.key!r} is there already"
            return Accepted(done=False, problem=problem)
        await self._become(order.part)
        state.recent = [order.fork_id]
        await reached("fork born")
        return Accepted()

    async def become(self, order: Become) -> None:
        """The same as a member of a larger team."""
        manager = self._manager
        if manager.state.marks:  # a dead letter that comes too late
            raise TeamMemberError(
                manager.id.type, self._team.name, "take over its part", "it has spoken already"
            )
        await self._become(order.part)
        manager.state.is_fork = True

    async def find_born(self) -> None:
        """Find members that have taken over their parts since: their dead letters were replayed."""
        state = self._manager.state
        for name in list(state.unborn):
            address = member_address(self._manager.id, name)
            stored = await self._read(address.type, address.key)
            if json.loads(stored.data or b"{}").get("is_fork"):
                state.unborn = {one: why for one, why in state.unborn.items() if one != name}

    async def _become(self, part: ConversationPart) -> None:
        state, given = self._manager.state, ManagerState.model_validate({**part.data, **part.logs})
        for field in MANAGER_FIELDS:
            setattr(state, field, getattr(given, field))
        _replace_logs(state, given, MANAGER_LOGS)
        for name, of_member in part.members.items():
            await tell_all_of(self._manager, Become(part=of_member), member_address(self._manager.id, name))

    def _read(self, type: str, key: str) -> Awaitable[StoredState]:
        return cast("RedisAgentRuntime", self._manager.runtime).transport.load_state(type, key)
