"""What the manager of a team on the bus remembers of a conversation."""

from __future__ import annotations

from operator import not_
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from callboard.log import Log

from .budget import RunBudget
from .consults import Consulted
from .marks import TurnMark
from .orders import RunState, StartRun
from .state import ConversationState, Speaking, is_nothing


class Parent(BaseModel):
    """Who asked a team that is a member of a larger one.

    Attributes:
        manager: Address of its manager.
        turn: The turn that this team was asked for.
        inside: The turns of larger teams, this one included, the outermost first.
    """

    model_config = ConfigDict(frozen=True)

    manager: str
    turn: int
    inside: tuple[int, ...]


class CurrentRun(BaseModel):
    """The run under way.

    Attributes:
        run_id: Its id.
        stream: Id of the run whose stream shows it: its own, or that of the outermost team.
        first: Where in the thread what is said in it begins, its task left out.
        path: For which runs counts what is used in it; see `path_of`. Not there: it was begun by an older version, and
            what is used counts for its id.
        parent: Who asked for it; None: a client did.
        is_paused: Whether nobody may begin to speak.
        is_interrupted: Whether those who were speaking were interrupted, too.
        held: Who is to speak when it goes on.
        is_stopping: Whether it ends after this turn.
        budget: The most that it may use.
        asked: How often somebody was asked to speak.
        record: Whether answers of models and tools are noted.
        is_stepping: Whether it waits before each turn until it is told to go on.
        is_wanted: Whether it was told so while it was paused.
        consulted: How often its strategy has asked people.
        asking: Id of what it asks now; "": nothing.
        answers: What it was answered while it chooses, by the names of its questions.
        timer: Id of the message that comes when its time is over; "": there is none.
    """

    run_id: str
    stream: str
    path: str = ""
    first: int = 0
    parent: Parent | None = Field(default=None, exclude_if=is_nothing)
    is_paused: bool = False
    is_interrupted: bool = False
    held: list[str] = Field(default_factory=list)
    is_stopping: bool = False
    budget: RunBudget | None = Field(default=None, exclude_if=is_nothing)
    asked: int = 0
    record: bool = False
    is_stepping: bool = False
    is_wanted: bool = False
    consulted: int = 0
    asking: str = ""
    answers: dict[str, Consulted] = Field(default_factory=dict)
    timer: str = ""

    @model_validator(mode="after")
    def _with_path(self) -> Self:
        self.path = self.path or self.run_id
        return self

    @property
    def inside(self) -> tuple[int, ...]:
        """The turns of larger teams that it is a part of."""
        return () if self.parent is None else self.parent.inside

    @property
    def state(self) -> RunState:
        """How it stands."""
        return "paused" if self.is_paused else "working"


class ManagerState(ConversationState):
    """What the manager remembers: the turn loop's part, and the runs.

    Attributes:
        run: The run under way.
        queued: Tasks that wait for its end.
        called_off: Turns that were under way when their run was cancelled or failed, by the member's name. Whether the
            member took them only it knows.
        asked: Number of the turn of a larger team that this one took last.
        unborn: Members of a fork that could not take over their parts, and the error of each.
        is_fork: Whether it has taken over the part that a member had in another conversation.
        marks: Where the logs were after each of the last turns.
        lost: What was up to this turn of a larger team is in no mark any more; 0: before the first mark there was nothing.
        recent: Ids of the last runs: a task that is sent again is not carried out again.
    """

    run: CurrentRun | None = Field(default=None, exclude_if=is_nothing)
    queued: list[StartRun] = Field(default_factory=list)
    called_off: dict[str, list[Speaking]] = Field(default_factory=dict)
    asked: int = 0
    recent: list[str] = Field(default_factory=list)
    unborn: dict[str, str] = Field(default_factory=dict, exclude_if=not_)
    is_fork: bool = Field(default=False, exclude_if=not_)
    marks: Log[TurnMark] = Log()
    lost: int = Field(default=0, exclude_if=not_)
