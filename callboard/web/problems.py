"""What goes wrong at a door, as problem details (RFC 9457): a status, and the sentence of the error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.responses import Response

from callboard.broker.errors import (
    EncodeError,
    InvalidIdError,
    OverloadedError,
    PayloadTooLargeError,
    RequestTimeoutError,
    ServerUnavailableError,
)
from callboard.errors import (
    InputAnsweredError,
    InputExpiredError,
    InputRequestUnknownError,
    InputValueError,
    InputWithdrawnError,
    NotAllowedToAnswerError,
    SettingValueError,
)
from callboard.foundation import CallboardError
from callboard.teams.errors import RunUnknownError, TeamBusyError, TeamNotRunError

SAFE: Final[Mapping[str, str]] = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
"""Headers of every answer."""

RETRY: Final[Mapping[str, str]] = {"retry-after": "2"}

STATUSES: Final[tuple[tuple[type[CallboardError], int], ...]] = (
    (RunUnknownError, 404),
    (InputRequestUnknownError, 404),
    (TeamBusyError, 409),
    (TeamNotRunError, 409),
    (InputAnsweredError, 409),
    (InputExpiredError, 410),
    (InputWithdrawnError, 410),
    (NotAllowedToAnswerError, 403),
    (InputValueError, 422),
    (PayloadTooLargeError, 413),
    (SettingValueError, 422),
    (InvalidIdError, 422),
    (EncodeError, 422),
    (OverloadedError, 503),
    (RequestTimeoutError, 503),
    (ServerUnavailableError, 503),
)
"""Errors that say what the client can do; the first that fits."""


class Problem(Exception):
    """An answer that is no success.

    Args:
        status: Of HTTP.
        detail: A sentence for the one who asked.
        headers: More of the answer.
    """

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """It as problem details."""
        title = HTTPStatus(self.status).phrase
        told = {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail}
        body = json.dumps(told).encode()
        headers = {**SAFE, **self.headers}
        return Response(body, self.status, headers, media_type="application/problem+json")


def problem_of(error: CallboardError) -> Problem | None:
    """What an error is to the client; None: it is a fault of ours."""
    for kind, status in STATUSES:
        if isinstance(error, kind):
            return Problem(status, str(error), RETRY if status == 503 else None)
    return None


def not_found(what: str) -> Problem:
    """There is no such thing, or not for this one: which of both it is, is not said."""
    return Problem(404, f"there is no {what}, or not for you")
