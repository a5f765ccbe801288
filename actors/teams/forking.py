"""What a conversation was after one of its turns: cut out of what its agents have stored, wherever they are."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from callboard.broker import AgentId
from callboard.broker.redis.client.states import StoredState

from .addresses import member_address
from .errors import TeamForkError
from .led import LedTeam
from .marks import KEPT, MemberMark, TurnMark
from .parts import Part

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

    async def at(self, turn: int | None, run_id: str) -> Part:
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

    async def _within(self, turn: int) -> Part | None:
        """What this team, which is a member, had after a turn of the larger one; None: it had not begun."""
        stored = await self._read(self._manager.type, self._manager.key)
        marks = marks_in(stored)
        fits = [number for number, mark in enumerate(marks) if mark.asked <= turn]
        if not fits:
            self._check_kept(len(marks), self._manager, turn)
            return None
        return await self._part(stored, marks, fits[-1])

    async def _part(self, stored: StoredState, marks: Sequence[TurnMark], number: int) -> Part:
        mark = marks[number]
        data = mark.model_dump(mode="json", exclude={"by", "run_id", "turn", "thread", "context"})
        ends = {"thread": mark.thread, "context": mark.context, "marks": number + 1}
        members = {one.name: await self._member(one, mark.turn) for one in self._team.participants}
        return Part(
            data={**data, "last_turn": mark.turn},
            logs={field: _items(stored.logs, field, end) for field, end in ends.items()},
            members={name: part for name, part in members.items() if part is not None},
        )

    async def _member(self, member: Any, turn: int) -> Part | None:
        address = member_address(self._manager, member.name)
        if isinstance(member, LedTeam):
            return await Forking(member, address, self._read)._within(turn)
        stored = await self._read(address.type, address.key)
        marks = [MemberMark.model_validate_json(item) for item in stored.logs.get("marks", ())]
        fits = [number for number, mark in enumerate(marks) if mark.turn <= turn]
        if not fits:
            self._check_kept(len(marks), address, turn)
            return None
        mark = marks[fits[-1]]
        saved = mark.saved
        if not mark.is_whole:
            if fits[-1] + 1 < len(marks):
                raise TeamForkError(
                    self._manager.type, self._manager.key, f"after turn {turn}", self._too_large(address)
                )
            saved = json.loads(stored.data or b"{}").get("saved")
        return Part(
            data={"asked": mark.turn, **({} if saved is None else {"saved": saved})},
            logs={
                "context": _items(stored.logs, "context", mark.context),
                "marks": _items(stored.logs, "marks", fits[-1] + 1),
            },
        )

    def _check_kept(self, count: int, address: AgentId, turn: int) -> None:
        if count >= KEPT:
            reason = f"{address.type!r} keeps its last {KEPT} turns"
            raise TeamForkError(self._manager.type, self._manager.key, f"after turn {turn}", reason)

    def _too_large(self, address: AgentId) -> str:
        return f"what {address.type!r} remembers beside its context is too large to be kept for earlier turns"


def marks_in(stored: StoredState) -> list[TurnMark]:
    """The turns of a manager's stored state that a fork may begin after, oldest first."""
    return [TurnMark.model_validate_json(item) for item in stored.logs.get("marks", ())]


def _items(logs: Mapping[str, Sequence[bytes]], field: str, end: int) -> list[Any]:
    return [json.loads(item) for item in logs.get(field, ())[:end]]


def _known(marks: Sequence[TurnMark]) -> str:
    if not marks:
        return "no turn of it has ended yet"
    turns = ", ".join(str(mark.turn) for mark in marks[-10:])
    return f"its last turns are {turns}, and {KEPT} are kept"
