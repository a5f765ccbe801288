from __future__ import annotations

from typing import Any

import httpx
import pytest

from callboard.broker import Retry
from callboard.broker.errors import (
    ConnectionLostError,
    OverloadedError,
    ServerUnavailableError,
    error_in,
    is_outage,
    waited_in,
)
from callboard.broker.outcome import reason_of
from callboard.memory.errors import StoreUnavailableError


class AwayError(Exception):
    """Something is not there."""

    is_outage = True


class HopelessError(ConnectionError):
    """It is known that it will not come back."""

    permanent = True


class PoliteError(ConnectionError):
    """A connection that was ended in good order."""

    is_outage = False


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (AwayError(), True),
        (ConnectionRefusedError(), True),
        (httpx.ConnectError("no"), True),
        (httpx.ConnectTimeout("no"), True),
        (StoreUnavailableError("http://nowhere", "refused"), True),
        (ServerUnavailableError("redis://nowhere"), True),
        (ConnectionLostError("redis://nowhere", "closed by the server"), True),
        (OverloadedError("the server's memory is full"), True),
        (OverloadedError("", "topic:visits"), True),
        (ExceptionGroup("both", [AwayError(), ConnectionResetError()]), True),
        (ExceptionGroup("one of them", [AwayError(), ValueError()]), False),
        (httpx.ReadTimeout("it may have worked"), False),
        (TimeoutError(), False),
        (OSError("disk full"), False),
        (ValueError(), False),
        (PoliteError(), False),
        (HopelessError(), False),
    ],
)
def test_what_counts_as_an_outage(error: BaseException, expected: bool) -> None:
    assert is_outage(error) is expected


def test_one_error_may_say_so_of_itself() -> None:
    error: Any = ValueError("the licence server sleeps")
    error.is_outage = True
    assert is_outage(error)


def test_what_was_waited_is_kept_in_the_reason() -> None:
    kept = reason_of(Retry(2.0, "AwayError: gone fishing", waited=12.5))
    assert kept == "outage 12500 AwayError: gone fishing"
    assert (waited_in(kept), error_in(kept)) == (12.5, "AwayError: gone fishing")


@pytest.mark.parametrize("reason", ["", "ValueError: x", "outage", "outage soon x", "outage -5 x"])
def test_any_other_reason_is_no_outage(reason: str) -> None:
    assert reason_of(Retry(2.0, reason)) == reason
    assert (waited_in(reason), error_in(reason)) == (0.0, None)
