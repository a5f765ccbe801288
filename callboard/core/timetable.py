"""Due times, again and again: by a cron text in a time zone, or after equal spans of time.

Cron texts are read by croniter, which only ever sees times without a zone here: what happens when clocks are changed is
decided in this file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from callboard.errors import SettingValueError

SHORTEST: Final = timedelta(milliseconds=50)  # between two due times
LONGEST: Final = timedelta(days=3660)
LONGEST_SHIFT: Final = timedelta(hours=3)  # by which clocks are changed at most; zones that skip a day aside
FIELDS: Final = 5
# What croniter makes a number of by chance, another one each time it is asked: no two processes would agree.
BY_CHANCE: Final = re.compile(r"(^|[ ,])[rh]([(/ ,]|$)")
CRON_RULE: Final = "five fields, such as '0 9 * * mon': minute, hour, day of month, month, day of week"


@dataclass(frozen=True)
class Timetable:
    """Due times, as ms of Unix time. Made by `timetable`.

    Times that clocks skip in spring are moved on by what they skip: 02:30 is 03:30 on that day. Times that come twice in
    autumn count the first time, and both times where the cron text takes every hour.

    Attributes:
        text: Cron text; "": by spans of time.
        zone: Time zone of the cron text, such as "Europe/Berlin".
        every: Span of time, ms; due times are the multiples of it since 1970. 0: by a cron text.
    """

    text: str
    zone: str
    every: int

    @property
    def shown(self) -> str:
        """For people."""
        return f"every {timedelta(milliseconds=self.every)}" if self.every else f"{self.text} ({self.zone})"

    @property
    def digest(self) -> str:
        """Tells timetables apart, in 16 characters."""
        return hashlib.blake2s(repr((self.text, self.zone, self.every)).encode(), digest_size=8).hexdigest()

    @cached_property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self.zone)

    @cached_property
    def _takes_every_hour(self) -> bool:
        return self.text.startswith("@hourly") or self.text.split()[1:2] == ["*"]

    def after(self, moment: int) -> int:
        """The first due time after this moment; both in ms of Unix time."""
        if self.every:
            return (moment // self.every + 1) * self.every
        return self._nearest(moment, is_forward=True)

    def until(self, moment: int) -> int:
        """The last due time that is not after this moment."""
        if self.every:
            return moment // self.every * self.every
        return self._nearest(moment, is_forward=False)

    def _nearest(self, moment: int, *, is_forward: bool) -> int:
        """By local times, whose order is not that of the moments near a change of clocks: there more are looked at."""
        local = datetime.fromtimestamp(moment / 1000, UTC).astimezone(self._zone)
        margin = LONGEST_SHIFT if self._is_near_change(local) else timedelta()
        if not is_forward:
            margin = -margin
        best: int | None = None
        best_local = datetime.min
        for wall in self._walls(local.replace(tzinfo=None) - margin, is_forward=is_forward):
            if best is not None and abs(wall - best_local) >= abs(margin):
                return best
            for found in self._moments(wall):
                is_beyond = found > moment if is_forward else found <= moment
                if is_beyond and (best is None or (found < best if is_forward else found > best)):
                    best, best_local = found, wall
        raise SettingValueError("when", repr(self.text), "due again and again")

    def _is_near_change(self, local: datetime) -> bool:
        near = LONGEST_SHIFT * 2
        return (local.astimezone(UTC) - near).astimezone(self._zone).utcoffset() != (
            local.astimezone(UTC) + near
        ).astimezone(self._zone).utcoffset()

    def _walls(self, start: datetime, *, is_forward: bool) -> Iterator[datetime]:
        """Local times of the cron text, one after the other: after this one, or from it backwards."""
        # Looking back includes the time itself, and due times are whole minutes.
        iterator = _cron(self.text, start if is_forward else start + timedelta(seconds=1))
        while True:
            yield iterator.get_next(datetime) if is_forward else iterator.get_prev(datetime)

    def _moments(self, wall: datetime) -> list[int]:
        """The moments at which clocks show this, ms; of one that they skip, the one that was meant."""
        folds = (0, 1) if self._takes_every_hour else (0,)
        return [round(wall.replace(tzinfo=self._zone, fold=fold).timestamp() * 1000) for fold in folds]


def timetable(when: str | timedelta, zone: str = "UTC") -> Timetable:
    """Due times by a cron text, or after equal spans of time.

    Args:
        when: Five fields of cron, also with names of months and days, or "@hourly" and the like; or a span of time.
        zone: Time zone of the cron text.

    Raises:
        SettingValueError: It can't be read, or is never due; or there is no such time zone (a ValueError).
    """
    if isinstance(when, timedelta):
        if not SHORTEST <= when <= LONGEST:
            rule = f"at least {SHORTEST.total_seconds()} s, and at most {LONGEST.days} days"
            raise SettingValueError("when", repr(when), rule)
        return Timetable("", "UTC", round(when / timedelta(milliseconds=1)))
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        raise SettingValueError("tz", repr(zone), "a time zone such as 'Europe/Berlin'") from None
    words = " ".join(str(when).lower().split())
    if not words.startswith("@") and len(words.split()) != FIELDS:
        raise SettingValueError("when", repr(when), CRON_RULE)
    if BY_CHANCE.search(words):
        raise SettingValueError("when", repr(when), f"{CRON_RULE}, and none of them by chance")
    try:
        _cron(words, datetime(2000, 1, 1)).get_next(datetime)
    except (ValueError, KeyError, AttributeError) as error:
        raise SettingValueError("when", repr(when), f"{CRON_RULE} ({error})") from None
    return Timetable(words, zone, 0)


def _cron(text: str, start: datetime) -> Any:
    from croniter import croniter

    return croniter(text, start)
