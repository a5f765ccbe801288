"""Numbers in the books of a namespace: a person may have written anything in their place."""

from __future__ import annotations

from typing import Final

MOST_DIGITS: Final = 19  # of the largest number that a server counts to
LATEST: Final = 253_402_300_799_000  # ms; the calendar ends then


def number(value: bytes | str | None) -> int | None:
    """A number as the runtime writes it; None: there is none, or something else is in its place."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else value or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None


def moment(value: bytes | str | None) -> int | None:
    """A time of the server's clock in ms; None: there is none, or something else is in its place."""
    found = number(value)
    return None if found is None else min(found, LATEST)


def time_of(score: bytes | str) -> int:
    """A time in ms that is the score of a sorted set, at most the end of the calendar."""
    return int(max(0.0, min(float(score), float(LATEST))))


def is_entry_id(text: str) -> bool:
    """Whether this is the id of an entry of a stream, in full."""
    first, _, second = text.partition("-")
    return number(first) is not None and number(second) is not None
