"""The connection to a server: its address and key, the session with it, and its failures as our errors."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from callboard.errors import SettingValueError
from callboard.foundation import MissingPackageError
from callboard.foundation.addresses import public_transport
from callboard.foundation.component import ComponentNotAllowedError
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
    UnsupportedParameterError,
)
from callboard.models.sessions import LoopSession

from .answer import WireError, first_problem
from .settings import REQUEST_TIMEOUT, ApiKey, OpenAIOptions, TokenProvider

if TYPE_CHECKING:
    import openai
    from openai import AsyncOpenAI


CONNECT_TIMEOUT: Final = 5.0  # seconds until a connection stands; no server of a model needs longer
NO_KEY: Final = "none"  # sent to servers of one's own, which ask for no key
OPENAI_ADDRESS: Final = "https://api.openai.com/v1"
# Other vendors' addresses that speak OpenAI's API, and the variables with their keys, by the beginning of a model's
# name: as AutoGen has them.
VENDORS: Final[Mapping[str, tuple[str, str]]] = {
    "gemini-": ("https://generativelanguage.googleapis.com/v1beta/openai/", "GEMINI_API_KEY"),
    "claude-": ("https://api.anthropic.com/v1/", "ANTHROPIC_API_KEY"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Azure:
    """A deployment in Azure.

    Attributes:
        endpoint: such as "https://<resource>.openai.azure.com".
        api_version: such as "2024-10-21".
        deployment: its name.
        ad_token: a token of Entra ID in place of a key.
        ad_token_provider: gives such a token for each request; a function or an async one.
    """

    endpoint: str
    api_version: str
    deployment: str
    ad_token: str | None = field(default=None, repr=False)
    ad_token_provider: TokenProvider | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A server, and how to reach it.

    Attributes:
        base_url: the address; for Azure its endpoint.
        api_key: a key, or an async function that gives one for each request.
        timeout: seconds without a byte from the server.
        http_client: an `httpx2.AsyncClient` to use in place of one of its own.
        public: the server may have public addresses only.
    """

    base_url: str
    api_key: ApiKey | None = field(default=None, repr=False)
    organization: str | None = None
    timeout: float = REQUEST_TIMEOUT
    default_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    http_client: Any = field(default=None, repr=False)
    azure: Azure | None = None
    public: bool = False

    def __post_init__(self) -> None:
        if not self.base_url.startswith(("http://", "https://")):
            rule = "an address that begins with http:// or https://"
            raise SettingValueError("azure_endpoint" if self.azure else "base_url", repr(self.base_url), rule)
        if self.timeout <= 0:
            raise SettingValueError("timeout", repr(self.timeout), "a number of seconds above 0")
        if importlib.util.find_spec("openai") is None:
            raise MissingPackageError("openai", "openai") from None

    @property
    def secret(self) -> str | None:
        """The key, to be left out of texts."""
        return self.api_key if isinstance(self.api_key, str) and self.api_key != NO_KEY else None

    async def load(self) -> None:
        """Import the package: most of a second, in which the other agents of this process go on."""
        if "openai" not in sys.modules:
            await asyncio.to_thread(importlib.import_module, "openai")

    def make(self) -> AsyncOpenAI:
        """Make the client. It retries nothing: `ModelRetries` does."""
        import openai

        client = self.http_client
        if client is None:
            # Not the one that the package makes: given up unclosed, that one tries to end its connections in whatever event
            # loop runs when the garbage collector comes, and fails with "Event loop is closed".
            client = openai.DefaultAsyncHttpxClient(transport=public_transport() if self.public else None)
        common: dict[str, Any] = {
            "api_key": self.api_key,
            "organization": self.organization,
            "timeout": openai.Timeout(self.timeout, connect=min(self.timeout, CONNECT_TIMEOUT)),
            "max_retries": 0,
            "default_headers": dict(self.default_headers),
            "http_client": client,
        }
        if self.azure is None:
            return openai.AsyncOpenAI(base_url=self.base_url, **common)
        return openai.AsyncAzureOpenAI(
            azure_endpoint=self.azure.endpoint,
            azure_deployment=self.azure.deployment,
            api_version=self.azure.api_version,
            azure_ad_token=self.azure.ad_token,
            azure_ad_token_provider=self.azure.ad_token_provider,
            **common,
        )


def connection_of(model: str, options: OpenAIOptions) -> Connection:
    """The connection that the options of a client name; the environment has those that are not given.

    Raises:
        AuthenticationError: there is no key for a server that needs one.
        SettingValueError: a value that can't work.
    """
    azure = _azure(model, options)
    address, key = _azure_access(model, azure, options) if azure else _access(model, options)
    return Connection(
        base_url=address,
        api_key=_provided(model, key) if callable(key) else key,
        organization=options.get("organization"),
        timeout=options.get("timeout", REQUEST_TIMEOUT),
        default_headers=options.get("default_headers") or {},
        http_client=options.get("http_client"),
        azure=azure,
    )


def _provided(model: str, provider: Callable[[], Awaitable[str]]) -> Callable[[], Awaitable[str]]:
    async def provide() -> str:
        key = await provider()
        if not key:
            raise AuthenticationError(model, "the function given as api_key gave no key")
        return key

    return provide


def _access(model: str, options: OpenAIOptions) -> tuple[str, ApiKey]:
    """The address and the key. A server at an address of one's own may do without a key."""
    given = options.get("base_url") or os.environ.get("OPENAI_BASE_URL")
    if given:
        return given, options.get("api_key") or os.environ.get("OPENAI_API_KEY") or NO_KEY
    vendor = next((there for prefix, there in VENDORS.items() if model.startswith(prefix)), None)
    address, variable = vendor or (OPENAI_ADDRESS, "OPENAI_API_KEY")
    key = options.get("api_key") or os.environ.get(variable)
    if not key:
        raise AuthenticationError(
            model, f"there is no API key for {address}: give api_key, or set {variable}"
        )
    return address, key


def _azure(model: str, options: OpenAIOptions) -> Azure | None:
    endpoint = options.get("azure_endpoint")
    if endpoint is None:
        return None
    if base_url := options.get("base_url"):
        raise SettingValueError("base_url", repr(base_url), "left out where azure_endpoint is given")
    version = options.get("api_version") or os.environ.get("OPENAI_API_VERSION")
    if not version:
        rule = 'given for Azure, such as "2024-10-21", or set by OPENAI_API_VERSION'
        raise SettingValueError("api_version", "None", rule)
    return Azure(
        endpoint=endpoint,
        api_version=version,
        deployment=options.get("azure_deployment") or model,
        ad_token=options.get("azure_ad_token") or os.environ.get("AZURE_OPENAI_AD_TOKEN"),
        ad_token_provider=options.get("azure_ad_token_provider"),
    )


def _azure_access(model: str, azure: Azure, options: OpenAIOptions) -> tuple[str, ApiKey | None]:
    key = options.get("api_key") or os.environ.get("AZURE_OPENAI_API_KEY")
    if not (key or azure.ad_token or azure.ad_token_provider):
        reason = "there is no API key for Azure: give api_key or azure_ad_token_provider, or set AZURE_OPENAI_API_KEY"
        raise AuthenticationError(model, reason)
    return azure.endpoint, key


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
UNSUPPORTED: Final = ("unsupported_parameter", "unsupported_value")
NOT_TAKEN: Final = re.compile(r"Unsupported (parameter|value): '?([a-z_]+)'?")
# What the openai package puts before every text of a server.
PREFIX: Final = re.compile(r"Error code: \d+( - )?")
# Gemini has no code for it, and status 400.
WRONG_KEY: Final = re.compile(r"API key not valid|API key expired|API_KEY_INVALID")
# Characters; what is shorter is no key, as "x" or "ollama", and stands in words as well.
SHORTEST_SECRET: Final = 7
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
    import httpx2
    import openai

    try:
        yield
    except (openai.APITimeoutError, httpx2.TimeoutException) as error:
        raise ModelTimeoutError(model, f"{address} gave no answer in time") from error
    # Of a response that the package hands out raw, as to the client for Ollama, errors are httpx2's own.
    except (openai.APIConnectionError, httpx2.TransportError) as error:
        if isinstance(error.__cause__, ComponentNotAllowedError):
            raise error.__cause__ from None
        reason = str(error.__cause__ or error) or type(error.__cause__).__name__
        raise ModelConnectionError(model, _plain(f"{address}: {reason}", secret)) from error
    except openai.APIStatusError as error:
        raise _of_status(model, address, secret, error) from error
    except openai.APIError as error:
        kind = _of_code(error) or ModelOverloadedError
        raise kind(model, _plain(error.message, secret)) from error
    except ValidationError as error:
        if _is_web_page(error):
            # A proxy that is up before its server is says so to people, with status 200.
            raise ModelOverloadedError(
                model, f"{address} sent a web page and no answer: it is not up yet, or base_url is wrong"
            ) from None
        raise BadResponseError(model, f"{address} sent no chat completion: {first_problem(error)}") from None
    except openai.OpenAIError as error:
        raise BadRequestError(model, _plain(str(error), secret)) from error
    except (JSONDecodeError, UnicodeDecodeError) as error:
        raise BadResponseError(model, f"{address} sent something that is not JSON") from error


@contextmanager
def errors_in_a_word() -> Iterator[None]:
    """Take an error's text where a server sends a text alone (Ollama), and OpenAI's API a table."""
    import openai

    try:
        yield
    except openai.APIStatusError as error:
        is_page = isinstance(error.body, str) and error.body.lstrip().startswith("<")
        if isinstance(error.body, str) and not is_page:
            error.message, error.body = error.body, {"message": error.body}
        raise


def reported(model: str, secret: str | None, error: WireError) -> ModelError:
    """The error for one that came with status 200 (OpenRouter does that)."""
    code = str(error.code)
    by_status = _of_number(int(code)) if code.isdecimal() else None
    kind = BY_CODE.get(code) or by_status or BadResponseError
    return kind(model, _plain(error.message or "no reason given", secret))


def _is_web_page(error: ValidationError) -> bool:
    """Whether what was to be JSON is HTML."""
    problem = error.errors(include_url=False)[0]
    given = problem["input"]
    text = given.decode(errors="replace") if isinstance(given, bytes) else str(given)
    return problem["type"] == "json_invalid" and text.lstrip().startswith("<")


def _of_number(status: int) -> type[ModelError] | None:
    """The error of an HTTP status; None: it says too little."""
    return BY_STATUS.get(status) or (ModelOverloadedError if status >= FIRST_SERVER_ERROR else None)


def _of_status(model: str, address: str, secret: str | None, error: openai.APIStatusError) -> ModelError:
    status = error.status_code
    text = _said(error)
    body = _body(error)
    if body is None:
        # No error of the API: most likely something else lives at that address.
        text = f"{address} does not answer as a chat API does. base_url usually ends in /v1"
    elif status == NOT_FOUND:
        text = f"{address}: {text}"
    kind = _of_code(error) or _of_number(status) or BadRequestError
    if WRONG_KEY.search(text):
        kind = AuthenticationError
    if status in (400, 500) and TOO_LONG.search(error.message):
        kind = ContextLengthError
    pause = retry_after(error.response.headers)
    if kind is BadRequestError and (refused := _refused(error, text)):
        name, is_value = refused
        return UnsupportedParameterError(
            model, _plain(text, secret), status, parameter=name, is_value=is_value
        )
    return kind(model, _plain(text, secret), status, _retry_delay(body or {}) if pause is None else pause)


def _refused(error: openai.APIStatusError, text: str) -> tuple[str, bool] | None:
    """The argument that is not taken, and whether it is only its value; None: the error is another one.

    OpenAI and Azure say it by code and by the name of the argument; who passes their words on may leave those out.
    """
    if error.code in UNSUPPORTED and isinstance(error.param, str):
        return error.param, error.code == UNSUPPORTED[1]
    found = NOT_TAKEN.match(text)
    return (found[2], found[1] == "value") if found else None


def _body(error: openai.APIStatusError) -> Mapping[str, Any] | None:
    """What the server says of an error; Gemini says it in a list. None: nothing that an API says."""
    body = error.body[0] if isinstance(error.body, list) and error.body else error.body
    if not isinstance(body, Mapping):
        return None
    inner = body.get("error")
    return inner if isinstance(inner, Mapping) else body


def _retry_delay(body: Mapping[str, Any]) -> float | None:
    """Seconds that Gemini asks to wait, as `"retryDelay": "34s"` in the details of an error; None: it does not say."""
    details = body.get("details")
    for detail in details if isinstance(details, list) else ():
        found = re.fullmatch(
            r"(\d+(?:\.\d+)?)s", str(detail.get("retryDelay", "")) if isinstance(detail, Mapping) else ""
        )
        if found:
            return float(found[1])
    return None


def _said(error: openai.APIStatusError) -> str:
    """The server's words, without the body around it; `detail` is how FastAPI, and so vLLM, has it."""
    body = _body(error) or {}
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
    hidden = text.replace(secret, "...") if secret and len(secret) >= SHORTEST_SECRET else text
    return hidden if len(hidden) <= LONGEST_REASON else f"{hidden[:LONGEST_REASON]}..."


class Session(LoopSession["AsyncOpenAI"]):
    """A session with the server of a connection, whose failures it raises as our errors.

    Args:
        model: its name, for errors.
        connection: to the server.
    """

    def __init__(self, model: str, connection: Connection) -> None:
        super().__init__(model, connection)
        self._connection = connection

    def typed_errors(self) -> AbstractContextManager[None]:
        """Raise the errors of the package as ours."""
        return typed_errors(self._model, self._connection.base_url, self._connection.secret)

    def reported(self, error: WireError) -> ModelError:
        """An error that came in place of an answer as ours."""
        return reported(self._model, self._connection.secret, error)
