"""What tells the makers apart, and the connection to one of them."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from callboard.errors import SettingValueError
from callboard.foundation import MissingPackageError
from callboard.models.errors import AuthenticationError

from .streams import note_response

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model

CONNECT_TIMEOUT: Final = 5.0  # seconds until a connection stands
NO_KEY: Final = "none"  # sent to servers of one's own, which ask for no key

GENERAL: Final[Mapping[str, str]] = {
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "parallel_tool_calls": "parallel_tool_calls",
    "extra_headers": "extra_headers",
    "extra_body": "extra_body",
    "timeout": "timeout",
}
"""Arguments that makers take, and pydantic-ai's settings that they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """An API, as far as it differs from the others.

    Attributes:
        name: for sentences.
        package: what speaks its API, as it is imported.
        module: pydantic-ai's module for it.
        extra: of ours that brings both.
        address: of its API.
        address_variable: of the environment, with another one; "": there is none.
        key_variables: of the environment, with a key; the first that is set counts. None: it needs no key.
        arguments: of requests beside `GENERAL`, and pydantic-ai's settings that they are.
        lacks: those of `GENERAL` that it does not take.
        more: options of its client beside those of all makers.
        secrets: those of them that are in no dump and no text.
        fetches_images: whether pydantic-ai fetches images that are given by their addresses, which the maker does not.
        open: makes the package's client.
    """

    name: str
    package: str
    module: str
    extra: str = "providers"
    address: str
    address_variable: str = ""
    key_variables: tuple[str, ...] = ()
    arguments: Mapping[str, str]
    lacks: frozenset[str] = frozenset()
    more: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()
    fetches_images: bool = False
    open: Callable[[MakerConnection], OpenModel]

    @property
    def settings(self) -> Mapping[str, str]:
        """All arguments of requests, and pydantic-ai's settings that they are."""
        general = {name: setting for name, setting in GENERAL.items() if name not in self.lacks}
        return {**general, **self.arguments}

    def address_of(self, given: str | None) -> str:
        """The address of its API: what is given, else what the environment has, else its own."""
        variable = os.environ.get(self.address_variable) if self.address_variable else None
        return given or variable or self.address

    def key_of(self, model: str, given: str | None, address: str) -> str:
        """The key: what is given, else what the environment has. A server of one's own may do without.

        Raises:
            AuthenticationError: there is none.
        """
        key = given or next((os.environ[name] for name in self.key_variables if os.environ.get(name)), None)
        if key is None and self.key_variables and address == self.address:
            names = " or ".join(self.key_variables)
            raise AuthenticationError(
                model, f"there is no API key for {address}: give api_key, or set {names}"
            )
        return key or NO_KEY


@dataclass(frozen=True, slots=True)
class OpenModel:
    """A model of pydantic-ai with its connections.

    Attributes:
        model: asks.
        end: ends its connections.
    """

    model: Model
    end: Callable[[], Any]

    async def close(self) -> None:
        """End the connections."""
        await self.end()


@dataclass(frozen=True, slots=True, kw_only=True)
class MakerConnection:
    """A server that speaks a maker's API, and how to reach it.

    Attributes:
        model: the model's name.
        timeout: seconds without a byte from the server.
        http_client: an `httpx2.AsyncClient` to use in place of one of its own.
        more: what one maker needs besides, such as a region.
    """

    maker: Maker
    model: str
    base_url: str
    api_key: str = field(repr=False)
    timeout: float
    default_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    http_client: Any = field(default=None, repr=False)
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.base_url.startswith(("http://", "https://")):
            rule = "an address that begins with http:// or https://"
            raise SettingValueError("base_url", repr(self.base_url), rule)
        if not self.timeout > 0:
            raise SettingValueError("timeout", repr(self.timeout), "a number of seconds above 0")
        for package in ("pydantic_ai", self.maker.package):
            if not _is_installed(package):
                raise MissingPackageError(package, self.maker.extra) from None

    @property
    def secrets(self) -> tuple[str, ...]:
        """What is left out of texts."""
        given = (self.api_key, *(str(self.more[name]) for name in self.maker.secrets if name in self.more))
        return tuple(one for one in given if one and one != NO_KEY)

    async def load(self) -> None:
        """Import the packages: a second or two, in which the other agents of this process go on."""
        if self.maker.module not in sys.modules:
            await asyncio.to_thread(importlib.import_module, self.maker.module)

    def make(self) -> OpenModel:
        """Make the package's client. It retries nothing: `ModelRetries` does."""
        return self.maker.open(self)

    def http(self) -> httpx2.AsyncClient:
        """The client for HTTP: the user's, else a new one."""
        import httpx2

        client: httpx2.AsyncClient = self.http_client or httpx2.AsyncClient(
            timeout=self.http_timeout(), follow_redirects=True
        )
        if note_response not in client.event_hooks["response"]:
            client.event_hooks["response"].append(note_response)
        return client

    def http_timeout(self) -> httpx2.Timeout:
        """Seconds for each step of a request."""
        import httpx2

        return httpx2.Timeout(self.timeout, connect=min(self.timeout, CONNECT_TIMEOUT))


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # the one that it is in
        return False
