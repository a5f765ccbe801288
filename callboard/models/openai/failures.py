"""Errors of the openai package as those of `callboard.models.errors`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from json import JSONDecodeError
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

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

from .answer import ReportedError
from .wire import first_problem

if TYPE_CHECKING:
    import openai

BY_STATUS: Final[Mapping[int, type[ModelError]]] = {
    401: AuthenticationError,
    402: QuotaExceededError,
    403: AuthenticationError,
    404: ModelNotFoundError,
    408: ModelTimeoutError,
    409: ModelOverloadedError,
    413: ContextLengthError,
    429: RateLimitError,
    501: BadRequestError,
    504: ModelTimeoutError,
}
# By the text in `code` or `type`: OpenAI's and Azure's, llama.cpp's last.
BY_CODE: Final[Mapping[str, type[ModelError]]] = {
    "insufficient_quota": QuotaExceededError,
    "billing_hard_limit_reached": QuotaExceededError,
    "rate_limit_exceeded": RateLimitError,
    "context_length_exceeded": ContextLengthError,
    "content_filter": ContentFilterError,
    "content_policy_violation": ContentFilterError,
    "invalid_api_key": AuthenticationError,
    "model_not_found": ModelNotFoundError,
    "DeploymentNotFound": ModelNotFoundError,
    "server_error": ModelOverloadedError,
    "server_is_overloaded": ModelOverloadedError,
    "exceed_context_size_error": ContextLengthError,
}
# Servers without a code for it: vLLM, Ollama, llama.cpp and others say it in words.
TOO_LONG: Final = re.compile(
    r"maximum context length|context (size|length|window)|prompt is too long|input is too long", re.IGNORECASE
)
# What the openai package puts before every text of a server.
PREFIX: Final = re.compile(r"Error code: \d+( - )?")
LONGEST_REASON: Final = 500  # characters; a wrong address may answer with a whole web page
NOT_FOUND: Final = 404
FIRST_SERVER_ERROR: Final = 500


@contextmanager
def typed_errors(model: str, address: str, secret: str | None) -> Iterator[None]:
    """Raise the errors of the openai package as ours, with the original as their cause.

    Args:
        model: name of the model.
        address: of the server, for sentences.
        secret: the key, which some servers repeat; it is left out of every text.
    """
    import openai

    try:
        yield
    except openai.APITimeoutError as error:
        raise ModelTimeoutError(model, f"{address} gave no answer in time") from error
    except openai.APIConnectionError as error:
        reason = str(error.__cause__ or error) or type(error.__cause__).__name__
        raise ModelConnectionError(model, _plain(f"{address}: {reason}", secret)) from error
    except openai.APIStatusError as error:
        raise _of_status(model, address, secret, error) from error
    except openai.APIError as error:
        kind = _of_code(error) or ModelOverloadedError
        raise kind(model, _plain(error.message, secret)) from error
    except ValidationError as error:
        raise BadResponseError(model, f"{address} sent no chat completion: {first_problem(error)}") from None
    except ReportedError as error:
        by_status = BY_STATUS.get(int(error.code)) if error.code.isdecimal() else None
        kind = BY_CODE.get(error.code) or by_status or BadResponseError
        raise kind(model, _plain(error.message, secret)) from None
    except openai.OpenAIError as error:
        raise BadRequestError(model, _plain(str(error), secret)) from error
    except (JSONDecodeError, UnicodeDecodeError) as error:
        raise BadResponseError(model, f"{address} sent something that is not JSON") from error


def _of_status(model: str, address: str, secret: str | None, error: openai.APIStatusError) -> ModelError:
    status = error.status_code
    text = _said(error)
    if not isinstance(error.body, Mapping):
        # No error of the API: most likely something else lives at that address.
        text = f"{address} does not answer as a chat API does. base_url usually ends in /v1"
    elif status == NOT_FOUND:
        text = f"{address}: {text}"
    kind = _of_code(error) or BY_STATUS.get(status)
    if kind is None:
        kind = ModelOverloadedError if status >= FIRST_SERVER_ERROR else BadRequestError
    if status in (400, 500) and TOO_LONG.search(error.message):
        kind = ContextLengthError
    return kind(model, _plain(text, secret), status, retry_after(error.response.headers))


def _said(error: openai.APIStatusError) -> str:
    """What the server said, without the body around it; `detail` is how FastAPI, and so vLLM, has it."""
    body = error.body if isinstance(error.body, Mapping) else {}
    said = body.get("message") or body.get("detail")
    if said and isinstance(said, str):
        return said
    return PREFIX.sub("", error.message, count=1) or "no reason given"


def _of_code(error: openai.APIError) -> type[ModelError] | None:
    return BY_CODE.get(error.code or "") or BY_CODE.get(error.type or "")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks to wait; None when it does not say.

    Source: RFC 9110, section 10.2.3: seconds or a date; `retry-after-ms` is OpenAI's and Azure's.
    """
    try:
        return max(0.0, float(headers.get("retry-after-ms", "")) / 1000)
    except ValueError:
        pass
    given = headers.get("retry-after", "")
    try:
        return max(0.0, float(given))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - time.time())
    except ValueError:
        return None


def _plain(text: str, secret: str | None) -> str:
    hidden = text.replace(secret, "...") if secret else text
    return hidden if len(hidden) <= LONGEST_REASON else f"{hidden[:LONGEST_REASON]}..."
