"""Due times, also on the days on which clocks are changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from callboard.core.timetable import Timetable, timetable
from callboard.errors import SettingValueError

BERLIN = ZoneInfo("Europe/Berlin")


def ms(text: str) -> int:
    """Of a time with its distance from UTC."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def local(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1000, UTC).astimezone(BERLIN).strftime("%d %H:%M%z")


def following(table: Timetable, start: str, count: int) -> list[str]:
    """The due times after this one, as clocks in Berlin show them."""
    moment, found = ms(start), list[str]()
    for _ in range(count):
        moment = table.after(moment)
        found.append(local(moment))
    return found


def test_a_cron_text_in_a_time_zone() -> None:
    mondays = timetable("0 9 * * mon", "Europe/Berlin")
    # Clocks go forward on the 29th of March 2026: nine o'clock stays nine o'clock.
    assert following(mondays, "2026-03-20T00:00+01:00", 3) == [
        "23 09:00+0100",
        "30 09:00+0200",
        "06 09:00+0200",
    ]


@pytest.mark.parametrize(
    ("text", "start", "expected"),
    [
        # 02:30 does not exist on the 29th.
        ("30 2 * * *", "2026-03-28T12:00+01:00", ["29 03:30+0200", "30 02:30+0200"]),
        # 02:30 exists twice on the 25th of October.
        ("30 2 * * *", "2026-10-24T12:00+02:00", ["25 02:30+0200", "26 02:30+0100"]),
        (
            "0 * * * *",
            "2026-10-25T00:30+02:00",
            ["25 01:00+0200", "25 02:00+0200", "25 02:00+0100", "25 03:00+0100"],
        ),
        ("30 * * * *", "2026-03-29T00:45+01:00", ["29 01:30+0100", "29 03:30+0200", "29 04:30+0200"]),
        ("@daily", "2026-03-28T12:00+01:00", ["29 00:00+0100", "30 00:00+0200"]),
    ],
)
def test_days_on_which_clocks_are_changed(text: str, start: str, expected: list[str]) -> None:
    assert following(timetable(text, "Europe/Berlin"), start, len(expected)) == expected


@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25", "2026-06-01"])
@pytest.mark.parametrize("text", ["*/20 * * * *", "*/20 2 * * *", "10,40 1-3 * * *", "30 2 * * sun"])
def test_looking_back_finds_what_looking_forward_found(text: str, day: str) -> None:
    table = timetable(text, "Europe/Berlin")
    moment, end = ms(f"{day}T00:00+00:00") - 8 * 3_600_000, ms(f"{day}T00:00+00:00") + 8 * 3_600_000
    found: list[int] = []
    while (moment := table.after(moment)) < end:
        assert not found or moment > found[-1]
        found.append(moment)
    for before, due in pairwise(found):
        assert table.until(due - 1) == before
        assert table.until(due) == due


def test_spans_of_time_are_the_same_for_every_process() -> None:
    table = timetable(timedelta(minutes=5))
    assert table.after(0) == 300_000
    assert table.after(299_999) == 300_000
    assert table.until(599_999) == 300_000


def test_timetables_that_differ_have_different_digests() -> None:
    tables = [timetable("0 9 * * *"), timetable("0 9 * * *", "Europe/Berlin"), timetable(timedelta(hours=1))]
    assert len({table.digest for table in tables}) == 3
    assert timetable(" 0  9 * * * ") == tables[0]


@pytest.mark.parametrize(
    "when",
    [
        "61 * * * *",
        "r 9 * * *",
        "0 r(9-11) * * *",
        "0 9 * * r/2",
        "0 9,h * * *",
        "* * * *",
        "* * * * * *",
        "0 0 30 2 *",
        "nonsense",
        "",
        "@reboot",
        timedelta(0),
    ],
)
def test_what_is_never_due_or_can_not_be_read_is_refused(when: str | timedelta) -> None:
    with pytest.raises(SettingValueError, match="when="):
        timetable(when)


@pytest.mark.parametrize("zone", ["Berlin", "", "../etc", "Europe/"])
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(SettingValueError, match="time zone"):
        timetable("0 9 * * *", zone)
