"""What is sent again and again at certain times, as an App declares it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args

from .broker.ids import AgentId, TopicId
from .errors import SettingValueError

if TYPE_CHECKING:
    from .timetable import Timetable

Missed: TypeAlias = Literal["skip", "one", "all"]
"""What becomes of due times at which nobody was there: nothing, the last one is made up for, or each of them."""

MISSED: Final[tuple[Missed, ...]] = get_args(Missed)


class Firing(NamedTuple):
    """One due time of a schedule.

    Attributes:
        schedule: Name of the schedule.
        due: When it was due, ms of Unix time.
    """

    schedule: str
    due: int

    @property
    def id(self) -> str:
        """Of its message, and of the run that it begins: such as "daily@20261122T090000Z"."""
        when, rest = divmod(self.due, 1000)
        shown = datetime.fromtimestamp(when, UTC).strftime("%Y%m%dT%H%M%S")
        return f"{self.schedule}@{shown}.{rest:03}Z" if rest else f"{self.schedule}@{shown}Z"


class Schedule(NamedTuple):
    """A schedule; `App.schedule` makes it.

    Attributes:
        name: By which it is listed, paused and removed.
        timetable: When it is due.
        missed: What becomes of due times at which nobody was there.
        to: Where its messages go, for people.
        what: What is sent, for people.
        send: Makes the message, and says whom it is for.
        is_run: Whether it begins a run with the id of the firing.
    """

    name: str
    timetable: Timetable
    missed: Missed
    to: str
    what: str
    send: Callable[[Firing], tuple[Any, TopicId | AgentId]]
    is_run: bool = False


def check_missed(value: str) -> Missed:
    """The value of `missed`.

    Raises:
        SettingValueError: It is none (a ValueError).
    """
    for known in MISSED:
        if value == known:
            return known
    raise SettingValueError("missed", repr(value), f"one of {', '.join(map(repr, MISSED))}")
