"""Failures of pydantic-ai's models as our errors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from callboard.models.errors import (
    AuthenticationError,
    BadRequestError,
    BadResponseError,
    ContentFilterError,
    ContextLengthError,
    ModelConnectionError,
    ModelError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelTimeoutError,
    QuotaExceededError,
    RateLimitError,
)

from .maker import MakerConnection

KINDS: Final[Mapping[str, type[ModelError]]] = {
    "ModelTimeoutError": ModelTimeoutError,
    "ModelConnectionError": ModelConnectionError,
    "ModelRateLimitError": RateLimitError,
    "ModelQuotaExceededError": QuotaExceededError,
    "ModelUnavailableError": ModelOverloadedError,
    "ModelServerError": ModelOverloadedError,
    "ModelContextWindowExceededError": ContextLengthError,
    "ModelAuthenticationError": AuthenticationError,
    "ModelNotFoundError": ModelNotFoundError,
    "ModelRequestRejectedError": BadRequestError,
}
"""The classes of pydantic-ai's errors, the narrower ones first, and ours."""
BY_STATUS: Final[Mapping[int, type[ModelError]]] = {
    408: ModelTimeoutError,
    409: ModelOverloadedError,
    413: ContextLengthError,
    504: ModelTimeoutError,
}
"""Where the status says more than the class."""
REQUEST_IDS: Final = ("request-id", "x-request-id", "x-amzn-requestid")
MISREAD: Final = (ValueError, TypeError, LookupError, AttributeError, AssertionError)
"""What the packages fail with on an answer of another form: they check none."""
PAGE: Final = re.compile(r"<(?:!doctype|html)\b.*", re.DOTALL | re.IGNORECASE)
SHORTEST_SECRET: Final = 7  # characters; what is shorter stands in words as well
LONGEST_REASON: Final = 500  # characters


@contextmanager
def typed_errors(connection: MakerConnection) -> Iterator[None]:
    """Raise the errors of pydantic-ai, and of the package behind it, as ours, with the original as their cause."""
    from pydantic_ai.exceptions import (
        ContentFilterError as Filtered,
        ModelAPIError,
        UnexpectedModelBehavior,
        UserError,
    )

    model = connection.model
    try:
        yield
    except ModelAPIError as error:
        raise _of_api(error, connection) from error
    except Filtered as error:
        raise ContentFilterError(model, _plain(error.message, connection)) from error
    except UnexpectedModelBehavior as error:
        raise BadResponseError(model, _plain(error.message, connection)) from error
    except UserError as error:
        raise BadRequestError(model, _plain(str(error), connection)) from error
    except MISREAD as error:
        if isinstance(error, ModelError):
            raise
        maker = connection.maker.name
        reason = f"{connection.base_url} sent no answer of {maker}'s API ({type(error).__name__})"
        raise BadResponseError(model, reason) from error


def _of_api(error: Any, connection: MakerConnection) -> ModelError:
    status = getattr(error, "status_code", None)
    kind = _kind_of(error, status)
    if issubclass(kind, ModelTimeoutError) and status is None:
        reason = f"{connection.base_url} gave no answer in time"
    else:
        reason = _reason(error, connection, status)
    # Within a stream the status is what the error would have had before it, and no status of HTTP's.
    return kind(connection.model, reason, None if error.in_stream else status, error.retry_after)


def _kind_of(error: Any, status: int | None) -> type[ModelError]:
    by_status = BY_STATUS.get(status or 0)
    if by_status is not None:
        return by_status
    names = [one.__name__ for one in type(error).__mro__]
    return next((kind for name, kind in KINDS.items() if name in names), BadResponseError)


def _reason(error: Any, connection: MakerConnection, status: int | None) -> str:
    said = _said(error.body)
    if said is None and status is not None:
        # No error of the API: most likely something else lives at that address.
        said = f"{connection.base_url} does not answer as {connection.maker.name}'s API does"
    elif said is None:
        said = f"{connection.base_url}: {_first_cause(error)}"
    headers = getattr(error, "headers", None) or {}
    number = next((headers[name] for name in REQUEST_IDS if name in headers), None)
    return _plain(said, connection) + (f" (request {number})" if number else "")


def _first_cause(error: Any) -> str:
    """The words of what failed first: the packages around it say no more than that there is no connection."""
    said, cause = str(error.message), error.__cause__
    while cause is not None:
        said, cause = str(cause) or said, cause.__cause__
    return said.rstrip(".")


def _said(body: Any) -> str | None:
    """The maker's words, without the body around them."""
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except ValueError:
            return None
    if isinstance(body, list) and body:
        body = body[0]
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    said = inner.get("message") or inner.get("Message") if isinstance(inner, Mapping) else inner
    return said if isinstance(said, str) and said and not PAGE.search(said) else None


def _plain(text: str, connection: MakerConnection) -> str:
    text = PAGE.sub("a web page", text)
    for secret in connection.secrets:
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, "...")
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}..."
