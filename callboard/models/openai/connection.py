"""The connection to a server: its address and key, with which the openai package's own client is made."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from callboard.errors import SettingValueError
from callboard.foundation.errors import MissingPackageError
from callboard.models.errors import AuthenticationError

from .settings import REQUEST_TIMEOUT, ApiKey, OpenAIOptions, TokenProvider

if TYPE_CHECKING:
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
    """

    base_url: str
    api_key: ApiKey | None = field(default=None, repr=False)
    organization: str | None = None
    timeout: float = REQUEST_TIMEOUT
    default_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    http_client: Any = field(default=None, repr=False)
    azure: Azure | None = None

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

        common: dict[str, Any] = {
            "api_key": self.api_key,
            "organization": self.organization,
            "timeout": openai.Timeout(self.timeout, connect=min(self.timeout, CONNECT_TIMEOUT)),
            "max_retries": 0,
            "default_headers": dict(self.default_headers),
            "http_client": self.http_client,
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
