"""A tool that is an HTTP request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from pydantic import BaseModel

from callboard.cancellation import CancellationToken
from callboard.foundation.component import (
    Component,
    ComponentNotAllowedError,
    NotDumpableError,
    harmless,
    permissions,
)
from callboard.foundation.errors import MissingPackageError
from callboard.foundation.json_texts import read_json
from callboard.memory.llm_messages import Image

from .base import BaseTool
from .errors import (
    HttpAnswerError,
    HttpConnectionError,
    HttpHostError,
    HttpStatusError,
    ToolDeclarationError,
    ToolTimeoutError,
)
from .http_addresses import addresses_of
from .http_answer import read_answer
from .http_request import DEFAULT_PORTS, PLACEHOLDER, HttpRequest, build_target
from .json_model import given_arguments, model_from_schema
from .schema import ParametersSchema, to_parameters

if TYPE_CHECKING:
    import ssl

    import httpx2

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
SHOWN: Final = 2_000  # characters of an error's body that the model is shown
ERROR: Final = 400
REDIRECTS: Final = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """The limits of the requests of an HTTP tool.

    Attributes:
        allowed_hosts: Hosts that redirects may lead to besides the tool's own; ``*.example.com`` stands for all below
            example.com.
        allow_private: True if private, loopback, link-local and other addresses outside the public internet are
            fine, of the tool's own host and after redirects.
        max_bytes: The largest answer, bytes.
        max_redirects: The most redirects that are followed.
    """

    allowed_hosts: Sequence[str] = ()
    allow_private: bool = False
    max_bytes: int = 1_000_000
    max_redirects: int = 5

    def __post_init__(self) -> None:
        object.__setattr__(self, "allowed_hosts", tuple(self.allowed_hosts))


class HttpToolConfig(BaseModel):
    """An HTTP tool as plain data; its fields are the arguments of HttpTool. Headers, and secrets in them, included."""

    name: str
    host: str
    port: int
    json_schema: dict[str, Any]
    headers: dict[str, str] | None = None
    description: str = "HTTP tool"
    path: str = "/"
    scheme: Literal["http", "https"] = "http"
    method: Method = "POST"
    return_type: Literal["text", "json"] = "text"
    timeout: float = 30.0
    query_params: tuple[str, ...] = ()
    limits: HttpLimits = HttpLimits()


class HttpTool(BaseTool[BaseModel, Any], Component[HttpToolConfig]):
    """One HTTP endpoint as a tool.

    Arguments named in the path go there; the others into the query (GET and DELETE) or into a JSON body. The name is
    looked up, every address is checked, and the connection goes to a checked one; the certificate is checked for the
    name. Proxies of the environment are not used. AutoGen's follows every redirect, takes answers of any size, goes to
    every address, and shows an error page as if it were the answer.

    A dump (`dump_component`) has no headers with a secret, which AutoGen's has. A config that allows private addresses is
    loaded only when all of its hosts are among the `hosts` of `load_component`.

    Needs httpx2: ``pip install 'callboard[http]'``.

    Args:
        name: The name by which the model calls it.
        host: Name or address of the server.
        port: Its port.
        json_schema: The arguments, as JSON schema of an object.
        headers: Sent along, to this host only.
        description: Its purpose, written for the model.
        path: The path of the request; ``{name}`` stands for an argument.
        scheme: http or https.
        method: GET, POST, PUT, PATCH or DELETE.
        return_type: "text" returns the answer's text, or an image if it is one that models take; "json" what it says
            as JSON. Other bytes are refused with a sentence that says what they are.
        timeout: Seconds for all of it.
        query_params: Arguments that go into the query although the method has a body.
        limits: The addresses that requests may go to, and the largest answer.
        ssl_context: Checks the server's certificate; None: against the system's authorities.

    Raises:
        ToolDeclarationError: These can't be (a ValueError).
    """

    component_config_schema = HttpToolConfig
    component_provider_override = "callboard.tools.HttpTool"

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        json_schema: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
        description: str = "HTTP tool",
        path: str = "/",
        scheme: Literal["http", "https"] = "http",
        method: Method = "POST",
        return_type: Literal["text", "json"] = "text",
        timeout: float = 30.0,
        *,
        query_params: Sequence[str] = (),
        limits: HttpLimits | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._config = HttpToolConfig(
            name=name,
            host=host,
            port=port,
            json_schema=dict(json_schema),
            headers=dict(headers or {}),
            description=description,
            path=path,
            scheme=scheme,
            method=method,
            return_type=return_type,
            timeout=timeout,
            query_params=tuple(query_params),
            limits=limits or HttpLimits(),
        )
        _check(self._config)
        self._limits = self._config.limits
        self._ssl_context = ssl_context
        model = model_from_schema(json_schema, name)
        super().__init__(model, str if return_type == "text" else object, name, description, timeout=timeout)

    def _describe(self) -> ParametersSchema:
        return to_parameters(self._config.json_schema, self._config.name)

    def to_config(self) -> HttpToolConfig:
        """The tool as plain data, headers included."""
        return self._config

    @classmethod
    def from_config(cls, config: HttpToolConfig) -> Self:
        """The tool again."""
        return cls(**{name: getattr(config, name) for name in HttpToolConfig.model_fields})

    def _to_config(self) -> HttpToolConfig:
        if self._ssl_context is not None:
            raise NotDumpableError(
                self.name, "ssl_context can't be written down: leave it out, or make the tool in the program"
            )
        return self._config.model_copy(update={"headers": harmless(self._config.headers)})

    @classmethod
    def _from_config(cls, config: HttpToolConfig) -> Self:
        hosts = (config.host, *config.limits.allowed_hosts)
        unknown = [host for host in hosts if host not in permissions().hosts]
        if config.limits.allow_private and unknown:
            raise ComponentNotAllowedError(f"going to private addresses of {unknown[0]}", "hosts", unknown[0])
        return cls.from_config(config)

    async def run(self, args: BaseModel, cancellation_token: CancellationToken) -> Any:
        """Send the request.

        Raises:
            HttpToolError: It may not go there, no server answers, or the answer is an error, too large, binary or no JSON.
            ToolTimeoutError: It took too long (a TimeoutError).
            ToolArgumentsError: An argument can't be part of the path (a ValueError).
            MissingPackageError: httpx2 is not installed (an ImportError).
        """
        request = self._request(given_arguments(args, self._config.json_schema))
        try:
            async with asyncio.timeout(self._config.timeout):
                found = await self._fetch(request)
        except TimeoutError as error:
            raise ToolTimeoutError(self.name, self._config.timeout) from error
        if self._config.return_type == "text":
            return found
        if isinstance(found, Image):
            raise HttpAnswerError(f"it is no JSON but an image ({found.mime_type})")
        try:
            return read_json(found)
        except ValueError as error:
            raise HttpAnswerError(f"it is no JSON ({error})") from error

    def _request(self, arguments: Mapping[str, Any]) -> HttpRequest:
        config = self._config
        target, body = build_target(config.path, config.method, config.query_params, arguments, self.name)
        headers = {"Accept": "application/json" if config.return_type == "json" else "*/*"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        return HttpRequest(
            method=config.method,
            scheme=config.scheme,
            host=config.host,
            port=config.port,
            target=target,
            headers={**headers, **(config.headers or {})},
            body=body,
        )

    async def _fetch(self, request: HttpRequest) -> str | Image:
        async with self._client() as client:
            for _ in range(self._limits.max_redirects + 1):
                status, location, found = await self._send(client, request)
                if not location:
                    return found
                request = request.redirected(status, location)
                self._check_host(request.host)
        raise HttpAnswerError(f"there are more than {self._limits.max_redirects} redirects")

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[httpx2.AsyncClient]:
        try:
            import httpx2
        except ModuleNotFoundError:
            raise MissingPackageError("httpx2", "http") from None
        # One client for each call: a connection that was checked for one name is never used for another.
        verify = self._ssl_context or True
        async with httpx2.AsyncClient(verify=verify, trust_env=False, timeout=self._config.timeout) as client:
            yield client

    def _check_host(self, host: str) -> None:
        allowed = (self._config.host, *self._limits.allowed_hosts)
        if not any(_matches(host, pattern) for pattern in allowed):
            raise HttpHostError(host, f"requests may go to {', '.join(allowed)} only, not to {host}")

    async def _send(self, client: httpx2.AsyncClient, request: HttpRequest) -> tuple[int, str, str | Image]:
        """Status, where it redirects to or "", and what the answer holds, from the first address that takes a connection."""
        import httpx2

        addresses = await addresses_of(request.host, request.port, allow_private=self._limits.allow_private)
        for address in addresses:
            try:
                return await self._send_to(client, request, address)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                if address == addresses[-1]:
                    raise HttpConnectionError(request.host, _reason(error)) from error
            except (httpx2.TransportError, httpx2.InvalidURL) as error:
                raise HttpConnectionError(request.host, _reason(error)) from error
        raise HttpConnectionError(request.host, "it has no address")

    async def _send_to(
        self, client: httpx2.AsyncClient, request: HttpRequest, address: str
    ) -> tuple[int, str, str | Image]:
        host = f"[{address}]" if ":" in address else address
        url = f"{request.scheme}://{host}:{request.port}{request.target}"
        headers = {**request.headers, "Host": request.authority, "Accept-Encoding": "identity"}
        extensions = {"sni_hostname": request.host}
        async with client.stream(
            request.method, url, headers=headers, content=request.body, extensions=extensions
        ) as response:
            location = response.headers.get("location", "")
            if response.status_code in REDIRECTS and location:
                return response.status_code, location, ""
            body = await self._body(response)
            if response.status_code >= ERROR:
                raise HttpStatusError(response.status_code, response.reason_phrase, _said(body, response))
            return response.status_code, "", _read(body, response)

    async def _body(self, response: httpx2.Response) -> bytes:
        encoding = response.headers.get("content-encoding", "identity")
        if encoding != "identity":
            # A small compressed answer may be a huge one.
            raise HttpAnswerError(f"it is compressed ({encoding}), which was not asked for")
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > self._limits.max_bytes:
                raise HttpAnswerError(f"it has more than {self._limits.max_bytes:,} bytes: ask for less")
        return bytes(body)


def _read(body: bytes, response: httpx2.Response) -> str | Image:
    media_type = response.headers.get("content-type", "").partition(";")[0].strip()
    return read_answer(body, media_type, response.charset_encoding)


def _said(body: bytes, response: httpx2.Response) -> str:
    """What the model is shown of the body of an error."""
    try:
        found = _read(body, response)
    except HttpAnswerError:
        return ""
    return found[:SHOWN] if isinstance(found, str) else ""


def _matches(host: str, pattern: str) -> bool:
    host, pattern = host.lower().rstrip("."), pattern.lower().rstrip(".")
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _check(config: HttpToolConfig) -> None:
    """Refuses what can't work when the tool is made, and not in the middle of a conversation."""
    properties = config.json_schema.get("properties", {})
    if config.json_schema.get("type", "object") != "object" or not isinstance(properties, Mapping):
        raise ToolDeclarationError(config.name, 'its JSON schema has to be of {"type": "object"}')
    if not config.host or any(letter in config.host for letter in "/@?#[] \\"):
        raise ToolDeclarationError(config.name, f"{config.host!r} is no host: give its name or address alone")
    if not config.path.startswith("/"):
        raise ToolDeclarationError(config.name, "its path has to begin with /")
    if config.port not in range(1, 65536) or config.scheme not in DEFAULT_PORTS:
        raise ToolDeclarationError(config.name, f"{config.port} is no port")
    for name in PLACEHOLDER.findall(config.path):
        if name not in properties or name not in config.json_schema.get("required", ()):
            raise ToolDeclarationError(
                config.name, f"{{{name}}} of its path has to be a required property of the schema"
            )
    for name in config.query_params:
        if name not in properties:
            raise ToolDeclarationError(
                config.name, f"query_params names {name!r}, which the schema does not have"
            )
