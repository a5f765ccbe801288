"""A conversation as it was after one of its turns, cut out of what its agents have stored."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from callboard.broker import AgentId
from callboard.broker.redis.client.states import StoredState

from .errors import TeamForkError
from .local_run import LedTeam
from .protocol import ConversationPart, member_address
from .states import Kept, MemberMark, TurnMark

Read: TypeAlias = Callable[[str, str], Awaitable[StoredState]]


class Forking:
    """Cuts a conversation at a turn. It only reads, and waits for nobody who is speaking.

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

    async def _within(self, turn: int) -> ConversationPart | None:
        """What this team, which is a member, had after a turn of the larger one; None: it had not begun."""
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
        members = {one.name: await self._member(one, mark.turn) for one in self._team.participants}
        return ConversationPart(
            data={**data, "last_turn": mark.turn, "lost": _lost(stored)},
            logs={field: _items(stored.logs, field, end) for field, end in ends.items()},
            members={name: part for name, part in members.items() if part is not None},
        )

    async def _member(self, member: Any, turn: int) -> ConversationPart | None:
        address = member_address(self._manager, member.name)
        if isinstance(member, LedTeam):
            return await Forking(member, address, self._read)._within(turn)
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
            saved = mark.saved
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
