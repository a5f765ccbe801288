"""Answers of models and results of tools, noted down while a run is recorded, and given again where it is replayed.

Whoever leads a run or speaks in it opens a Tape for what its handler does, and writes it with its commit; model clients and
tools note and ask here, and know nothing of runs.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict

from callboard.broker.encoding.registry import message
from callboard.context import ContextScope

from .runs import speaker

TakeKind: TypeAlias = Literal["model", "tool"]
MOST_TEXT: Final = 500  # characters that are kept of what was asked


@message(name="callboard.Take")
class Take(BaseModel):
    """One answer of a model or one result of a tool.

    Attributes:
        agent: who asked, such as "poets.writer".
        kind: whether a model answered or a tool.
        request: what was asked, as far as it takes to find it again and to say what differs.
        answer: what came back, as JSON; None: it was too large to be kept.
    """

    model_config = ConfigDict(frozen=True)

    agent: str
    kind: TakeKind
    request: dict[str, Any]
    answer: dict[str, Any] | None = None


@dataclass(slots=True)
class Tape:
    """What one handler has noted."""

    takes: list[Take] = field(default_factory=list)


class Player(Protocol):
    """Where answers come from while a run is replayed."""

    def answer_to(self, agent: str, kind: TakeKind, request: dict[str, Any]) -> dict[str, Any]:
        """The answer that was recorded.

        Raises:
            Exception: there is none to this request.
        """
        ...


tape_here: ContextVar[Tape | None] = ContextVar("callboard_tape", default=None)
player_here: ContextVar[Player | None] = ContextVar("callboard_player", default=None)


def taping(tape: Tape | None) -> ContextScope[Tape | None]:
    """Note what is answered in the `with` block; None: nothing, as inside a tool, of which only the result is noted."""
    return ContextScope(tape_here, tape)


def note(kind: TakeKind, request: dict[str, Any], answer: dict[str, Any]) -> None:
    """Note an answer, if somebody records."""
    tape = tape_here.get()
    if tape is not None:
        tape.takes.append(Take(agent=speaker(), kind=kind, request=request, answer=answer))


def is_taped() -> bool:
    """Whether somebody records here."""
    return tape_here.get() is not None


def played(kind: TakeKind, request: dict[str, Any]) -> dict[str, Any] | None:
    """The recorded answer; None: nothing is replayed here."""
    player = player_here.get()
    return None if player is None else player.answer_to(speaker(), kind, request)


def is_played() -> bool:
    """Whether something is replayed here."""
    return player_here.get() is not None
