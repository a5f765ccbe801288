"""Schedules as the server remembers them: when each is due next, by whom it is declared, whether it is paused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from .connection import Link
from .endpoint import Argument

KEY: Final = "schedules"
DIGITS: Final = 14  # of a time, ms: until the year 5138


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """A schedule, as the server has it.

    Attributes:
        name: of the schedule.
        app: that declared it.
        declared: what it says of it, as JSON.
        due: when it is due next, server ms.
        digest: of the timetable by which that is so.
        paused: since when, server ms; None: it is not.
        paused_by: who paused it, "" when that was not said.
        sent: when something was sent last, server ms; None: nothing was.
        count: how often something was sent.
    """

    name: str
    app: str
    declared: str
    due: int
    digest: str
    paused: int | None
    paused_by: str
    sent: int | None
    count: int

    @property
    def expected(self) -> str:
        """The firing that is due, as the server compares it."""
        return f"{self.due} {self.digest}"


class DeclaredSchedule(NamedTuple):
    """A schedule as an app declares it.

    Attributes:
        name: of the schedule.
        said: what is shown of it, as JSON.
        digest: of its timetable.
        first: when it is due, server ms, if its timetable is new.
    """

    name: str
    said: str
    digest: str
    first: int


class ScheduleStore:
    """Reads and changes them, each change in one step."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def declare(self, app: str, schedules: Iterable[DeclaredSchedule]) -> int:
        """Makes the schedules of an app known; others of that app are forgotten.

        Returns:
            How often the app did so; 0 when something was sent meanwhile behind the first due time of a new timetable: all
            are declared again then.
        """
        arguments: list[Argument] = ["declare", app]
        for one in schedules:
            arguments += (one.name, one.said, one.digest, one.first)
        return int(await self._link.run("schedule", arguments))

    async def pass_over(self, stored: StoredSchedule, due: int) -> bool:
        """Lets a due time pass without sending anything; False when it is not what is due any more."""
        return await self._order("pass", stored.name, stored.expected, following(stored, due))

    async def pause(self, name: str, since: int, by: str = "") -> bool:
        """Nothing is sent until `resume`; False when it was paused already, or is not there."""
        return await self._order("pause", name, f"{since} {by}")

    async def resume(self, name: str) -> bool:
        """False when it was not paused."""
        return await self._order("resume", name)

    async def remove(self, name: str) -> bool:
        """Forgets one; False when it was not there."""
        return await self._order("remove", name)

    async def _order(self, *arguments: Argument) -> bool:
        return bool(await self._link.run("schedule", arguments))

    async def all(self) -> list[StoredSchedule]:
        """All of them, by name."""
        return (await self.look())[0]

    async def look(self, app: str = "") -> tuple[list[StoredSchedule], int]:
        """All of them, by name, and how often an app has declared its own."""
        flat: list[bytes] = await self._link.command("HGETALL", self._link.keys.of(KEY))
        fields = dict(zip(map(_text, flat[::2]), map(_text, flat[1::2]), strict=True))
        names = sorted(field.removeprefix("declared ") for field in fields if field.startswith("declared "))
        count = fields.get(f"declares {app}", "")
        schedules = [one for name in names if (one := _stored(name, fields)) is not None]
        return schedules, int(count) if _is_time(count) else 0


def following(stored: StoredSchedule, due: int) -> str:
    """The firing that is due after this one, as the server keeps it."""
    return f"{due} {stored.digest}"


def firing(stored: StoredSchedule, due: int) -> str:
    """The idempotency id of what is sent now, by which `due` is what comes next: it is accepted once, see schedules.lua."""
    return f">@{stored.name}|{stored.expected}|{following(stored, due)}"


def _stored(name: str, fields: dict[str, str]) -> StoredSchedule | None:
    """None where the key was written to by hand."""
    due, _, digest = fields.get(f"next {name}", "").partition(" ")
    if not _is_time(due):
        return None
    since, _, by = fields.get(f"paused {name}", "").partition(" ")
    sent, count = fields.get(f"sent {name}", ""), fields.get(f"count {name}", "")
    return StoredSchedule(
        name=name,
        app=fields.get(f"app {name}", ""),
        declared=fields[f"declared {name}"],
        due=int(due),
        digest=digest,
        paused=int(since) if _is_time(since) else None,
        paused_by=by,
        sent=int(sent) if _is_time(sent) else None,
        count=int(count) if _is_time(count) else 0,
    )


def _is_time(text: str) -> bool:
    """Whether it is ms of a time that there is, or some other number of the same size."""
    return text.isdecimal() and len(text) <= DIGITS


def _text(value: bytes) -> str:
    return value.decode(errors="replace")
