"""`callboard schedules list`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from callboard.cli.options import AsJson, Namespace, OptionalTarget, Url
from callboard.cli.output import duration, print_json, say, say_table
from callboard.cli.sessions import run, runs_at

if TYPE_CHECKING:
    from callboard.runtime.schedules import ScheduleStatus


def list_them(
    target: OptionalTarget = None, url: Url = None, namespace: Namespace = None, as_json: AsJson = False
) -> None:
    """List schedules: when each is due, and what became of it.

    One that is late has no worker process that looks to it: `callboard up` starts them. An app that declares a schedule
    no more ends it with the next process that starts.

      callboard schedules list office:app
      callboard schedules list --namespace office --json

    Exit codes: 0 listed, 2 wrong use, 3 no server.
    """

    async def read() -> tuple[list[ScheduleStatus], int]:
        async with runs_at(target, url, namespace) as runtime:
            return await runtime.schedules.list(), runtime.transport.now_ms()

    found, now = run(read())
    if as_json:
        print_json(found)
    elif not found:
        say("no schedules")
    else:
        header = ("SCHEDULE", "WHEN", "TO", "NEXT", "SENT", "LAST", "MISSED")
        say_table(header, [_row(one, now) for one in found], optional=("MISSED", "LAST", "SENT"))


def _row(one: ScheduleStatus, now: int) -> tuple[object, ...]:
    return (
        one.name,
        one.when,
        one.to,
        _next(one, now),
        one.count,
        None if one.sent is None else _time(one.sent),
        one.missed,
    )


def _next(one: ScheduleStatus, now: int) -> str:
    if one.paused is not None:
        by = f" by {one.paused_by}" if one.paused_by else ""
        return f"paused{by}, {duration(max(0.0, now / 1000 - one.paused.timestamp()))} ago"
    late = now / 1000 - one.due.timestamp()
    return f"{_time(one.due)}, late by {duration(late)}" if late > 1 else _time(one.due)


def _time(when: datetime) -> str:
    return when.astimezone().strftime("%Y-%m-%d %H:%M:%S")
