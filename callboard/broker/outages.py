"""Outages: errors that say that something a handler needs can't be reached, and nothing about the message itself.

While a message waits for one to end, the reason that is kept with its attempts (`tries:<type>`) is
`outage <ms waited so far> <error>`.
"""

from __future__ import annotations

from typing import Final

from .outcome import Retry

ELSEWHERE: Final = frozenset(
    {"httpx.ConnectError", "httpx.ConnectTimeout", "httpcore.ConnectError", "httpcore.ConnectTimeout"}
)
"""Classes of libraries that this package need not have, by module and name."""

MARK: Final = "outage "


def is_outage(error: BaseException) -> bool:
    """Whether an error is an outage.

    What its attribute `is_outage` says counts, on the error or its class. Without it: Python's ConnectionError, and
    errors of httpx that say that there was no connection, are outages; a timeout is none, for the other side may have
    worked. A group of errors is one when each of them is. An error that is `permanent` is none.
    """
    if getattr(error, "permanent", False):
        return False
    said = getattr(error, "is_outage", None)
    if said is not None:
        return bool(said)
    if isinstance(error, BaseExceptionGroup):
        return all(is_outage(one) for one in error.exceptions)
    return isinstance(error, ConnectionError) or any(
        f"{cls.__module__.partition('.')[0]}.{cls.__name__}" in ELSEWHERE for cls in type(error).__mro__
    )


def reason_of(retry: Retry) -> str:
    """The reason of another attempt, as it is kept."""
    return retry.reason if retry.waited is None else f"{MARK}{retry.waited * 1000:.0f} {retry.reason}"


def waited_in(reason: str) -> float:
    """The seconds that a message has waited for an outage to end, from the reason that is kept; 0 where there is none."""
    number = reason.removeprefix(MARK).partition(" ")[0]
    return int(number) / 1000 if reason.startswith(MARK) and number.isdecimal() else 0.0


def error_in(reason: str) -> str | None:
    """The error of an outage, from the reason that is kept; None where it was none."""
    return reason.removeprefix(MARK).partition(" ")[2] if waited_in(reason) else None
