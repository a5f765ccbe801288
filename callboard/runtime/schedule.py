"""When a message is due: what a program says of it, checked."""

from __future__ import annotations

from datetime import datetime

from callboard.send_options import SendOptions

from .errors import ScheduleError

LONGEST = 10**8  # seconds that a message may wait


def times(options: SendOptions) -> tuple[int, int | None]:
    """When a message is due, as a Posting has it, and how many ms later it expires.

    Raises:
        ScheduleError: it can't be sent at that time.
    """
    seconds = options.expires_in
    due = 0 if options.delay is None and options.at is None else _due(options)
    if seconds is None:
        return due, None
    if not _is_seconds(seconds) or seconds == 0:
        raise ScheduleError(
            f"expires_in={_shown(seconds)} has to be seconds, more than 0 and less than {LONGEST:.0f}"
        )
    return due, max(1, int(seconds * 1000))


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value < LONGEST


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, float | str) else str(value)[:40]


def _due(options: SendOptions) -> int:
    delay, at = options.delay, options.at
    if delay is not None and at is not None:
        raise ScheduleError("give a delay or a time, not both")
    if delay is not None:
        if not _is_seconds(delay):
            raise ScheduleError(
                f"a delay of {_shown(delay)} can't be: it has to be seconds, 0 or more and less than {LONGEST:.0f}"
            )
        return int(delay * 1000)
    if at is None:
        return 0
    # Programs without a type checker give a number of seconds since 1970, or a text.
    if not isinstance(at, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ScheduleError(
            f"at={_shown(at)} has to be a datetime, such as datetime.fromtimestamp(seconds, UTC)"
        )
    if at.tzinfo is None:
        raise ScheduleError("at= needs a time zone, such as datetime.now(UTC) + timedelta(minutes=5)")
    return min(0, -int(at.timestamp() * 1000))
