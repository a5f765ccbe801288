"""A tool that is an HTTP request: addresses that it may reach, the request, redirects and the answer.

A name is looked up once for each request and the connection goes to an address that was checked, so that a name server
which answers differently the second time (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Self
from urllib.parse import quote, urlencode, urljoin, urlsplit

from pydantic import BaseModel

from callboard.core.cancellation import CancellationToken
from callboard.foundation import MissingPackageError, addresses
from callboard.foundation.addresses import is_public
from callboard.foundation.component import (
    Component,
    ComponentNotAllowedError,
    NotDumpableError,
    harmless,
    permissions,
)
from callboard.foundation.texts import read_json
from callboard.memory.errors import ImageError
from callboard.memory.llm_messages import Image

from .base import BaseTool
from .errors import (
    CallRefusedError,
    HttpToolError,
    ToolArgumentsError,
    ToolConnectionError,
    ToolDeclarationError,
    ToolTimeoutError,
)
from .json_model import given_arguments, model_of_parameters
from .schema import ParametersSchema, to_parameters

if TYPE_CHECKING:
    import ssl

    import httpx2


# Addresses

SILENT: Final = "gave no answer"


async def addresses_of(host: str, port: int, *, allow_private: bool) -> list[str]:
    """The addresses of a host, checked.

    Args:
        host: A name or an address.
        port: The port of the request.
        allow_private: Also take addresses outside the public internet.

    Raises:
        CallRefusedError: One of them is not public. One is enough: who mixes them is up to something.
        ToolConnectionError: The name is not known (a ConnectionError).
    """
    found = await lookup(host, port)
    if not allow_private:
        for address in found:
            if not is_public(address):
                raise CallRefusedError(
                    host,
                    f"{host} has the address {address}, which is private, local or reserved; no request was sent. "
                    "The person who runs this tool can allow it with HttpLimits(allow_private=True)",
                )
    return found


async def lookup(host: str, port: int) -> list[str]:
    """The addresses that the system knows for a host, each once.

    Raises:
        ToolConnectionError: None (a ConnectionError).
    """
    try:
        return await addresses.lookup(host, port)
    except (OSError, UnicodeError) as error:
        raise ToolConnectionError(host, f"its address is not known ({error})", SILENT) from error


# The request

PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
DEFAULT_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
BODY_METHODS: Final = ("POST", "PUT", "PATCH")
CHANGES_METHOD: Final = (301, 302, 303)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request.

    Attributes:
        method: GET, POST, PUT, PATCH or DELETE.
        scheme: http or https.
        host: Name or address, without brackets.
        port: The port.
        target: Path and query, encoded.
        headers: The headers to send.
        body: JSON; None: none.
    """

    method: str
    scheme: str
    host: str
    port: int
    target: str
    headers: Mapping[str, str]
    body: bytes | None

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """Host and port, as in a URL and in the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def redirected(self, status: int, location: str) -> HttpRequest:
        """The request that a redirect asks for. Headers do not go to another origin.

        Raises:
            HttpToolError: It leads nowhere, to something other than HTTP, from https to http, or to a port that
                is neither the one of this request nor the usual one.
        """
        try:
            there = urlsplit(urljoin(f"{self.scheme}://{self.authority}{self.target}", location))
            port = there.port
        except ValueError as error:
            raise _useless(f"its redirect was not followed: it names no address ({error})") from error
        if there.scheme not in DEFAULT_PORTS or not there.hostname:
            raise _useless("its redirect was not followed: it does not lead to http or https")
        if self.scheme == "https" and there.scheme == "http":
            raise _useless("its redirect was not followed: it leads from https to http")
        port = port or DEFAULT_PORTS[there.scheme]
        if port not in (self.port, DEFAULT_PORTS[there.scheme]):
            raise _useless(f"its redirect was not followed: it leads to the port {port}")
        target = quote(there.path or "/", safe="/%:@!$&'()*+,;=~-._")
        if there.query:
            target += "?" + quote(there.query, safe="/%:@!$&'()*+,;=~-._?")
        moved = replace(self, scheme=there.scheme, host=there.hostname, port=port, target=target)
        if moved.origin != self.origin:
            moved = replace(moved, headers={})
        if status == 303 or (status in CHANGES_METHOD and self.method == "POST"):
            moved = replace(moved, method="GET", body=None)
        return moved


def build_target(
    path: str, method: str, query_params: Collection[str], arguments: Mapping[str, Any], tool: str
) -> tuple[str, bytes | None]:
    """Path and query, and the body.

    Args:
        path: The template: ``{name}`` stands for an argument.
        method: POST, PUT and PATCH send the other arguments as JSON, GET and DELETE in the query.
        query_params: Arguments that go into the query in any case.
        arguments: By name, as plain data.
        tool: Name of the tool, for the error.

    Raises:
        ToolArgumentsError: One for the path is missing, or would lead somewhere else (a ValueError).
    """
    rest = dict(arguments)

    def fill(found: re.Match[str]) -> str:
        return _segment(found[1], rest.pop(found[1], None), tool)

    target = PLACEHOLDER.sub(fill, path)
    in_query = {
        name: rest.pop(name) for name in list(rest) if name in query_params or method not in BODY_METHODS
    }
    if in_query:
        pairs = [(name, _plain(item)) for name, value in in_query.items() for item in _items(value)]
        target += ("&" if "?" in target else "?") + urlencode(pairs, quote_via=quote)
    if method not in BODY_METHODS:
        return target, None
    return target, json.dumps(rest, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _segment(name: str, value: Any, tool: str) -> str:
    """A value as one segment of a path; it can't become several, or lead upwards."""
    text = "" if value is None else _plain(value)
    if text in ("", ".", ".."):
        raise ToolArgumentsError(tool, (f"{name}: it is part of a path and can't be {text!r}",))
    return quote(text.encode("utf-8", "replace"), safe="")


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _plain(value: Any) -> str:
    """A value in a path or a query: text as it is, everything else as JSON has it."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode()


# The answer

CONTROLS: Final = re.compile("[\0-\x06\x0e-\x1a]")  # no text has them
SVG: Final = "image/svg+xml"
UNKNOWN: Final = ("", "application/octet-stream", "binary/octet-stream")
OLD: Final = "cp1252"  # what texts of servers that name no character set are in, when they are not UTF-8


def read_answer(body: bytes, media_type: str, charset: str | None) -> str | Image:
    """The content of an answer.

    Args:
        body: Its bytes.
        media_type: As the server names it, without parameters; "": it names none.
        charset: The character set that the server names; None: none.

    Returns:
        A text, or an image of one of the formats that models take.

    Raises:
        HttpToolError: It is neither; the error says what it is and how large.
    """
    media_type = media_type.lower()
    if media_type in UNKNOWN or (media_type.startswith("image/") and media_type != SVG):
        image = _image(body)
        if image is not None:
            return image
    text = _text(body, media_type, charset)
    if text is None or CONTROLS.search(text):
        kind = media_type or "of no type"
        raise _useless(f"it is binary ({kind}, {len(body):,} bytes), which can't be shown as text")
    return text


def _image(body: bytes) -> Image | None:
    try:
        return Image.from_bytes(body)
    except ImageError:
        return None


def _text(body: bytes, media_type: str, charset: str | None) -> str | None:
    """None: it is in no known character set."""
    if charset is not None:
        try:
            return body.decode(charset, "replace")
        except LookupError as error:
            raise _useless(f"its character set is unknown ({error})") from error
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body.decode(OLD, "replace") if media_type.startswith("text/") else None


# The tool

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
        self._given_parameters = _checked(self._config)
        self._limits = self._config.limits
        self._ssl_context = ssl_context
        model = model_of_parameters(self._given_parameters, name)
        super().__init__(model, str if return_type == "text" else object, name, description, timeout=timeout)

    def _describe(self) -> ParametersSchema:
        return self._given_parameters

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
        request = self._request(given_arguments(args, self._given_parameters))
        try:
            async with asyncio.timeout(self._config.timeout):
                found = await self._fetch(request)
        except TimeoutError as error:
            raise ToolTimeoutError(self.name, self._config.timeout) from error
        if self._config.return_type == "text":
            return found
        if isinstance(found, Image):
            raise _useless(f"it is no JSON but an image ({found.mime_type})")
        try:
            return read_json(found, is_strict=False)  # a server's, which no rule judges
        except ValueError as error:
            raise _useless(f"it is no JSON ({error})") from error

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
        raise _useless(f"there are more than {self._limits.max_redirects} redirects")

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
            raise CallRefusedError(host, f"requests may go to {', '.join(allowed)} only, not to {host}")

    async def _send(self, client: httpx2.AsyncClient, request: HttpRequest) -> tuple[int, str, str | Image]:
        """Status, where it redirects to or "", and what the answer holds, from the first address that takes a connection."""
        import httpx2

        found = await addresses_of(request.host, request.port, allow_private=self._limits.allow_private)
        for address in found:
            try:
                return await self._send_to(client, request, address)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                if address == found[-1]:
                    raise ToolConnectionError(request.host, _reason(error), SILENT) from error
            except (httpx2.TransportError, httpx2.InvalidURL) as error:
                raise ToolConnectionError(request.host, _reason(error), SILENT) from error
        raise ToolConnectionError(request.host, "it has no address", SILENT)

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
                reason = f"the server answered {response.status_code} {response.reason_phrase}"
                raise HttpToolError(reason, response.status_code, _said(body, response))
            return response.status_code, "", _read(body, response)

    async def _body(self, response: httpx2.Response) -> bytes:
        encoding = response.headers.get("content-encoding", "identity")
        if encoding != "identity":
            # A small compressed answer may be a huge one.
            raise _useless(f"it is compressed ({encoding}), which was not asked for")
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > self._limits.max_bytes:
                raise _useless(f"it has more than {self._limits.max_bytes:,} bytes: ask for less")
        return bytes(body)


def _read(body: bytes, response: httpx2.Response) -> str | Image:
    media_type = response.headers.get("content-type", "").partition(";")[0].strip()
    return read_answer(body, media_type, response.charset_encoding)


def _said(body: bytes, response: httpx2.Response) -> str:
    """The part of an error's body that the model is shown."""
    try:
        found = _read(body, response)
    except HttpToolError:
        return ""
    return found[:SHOWN] if isinstance(found, str) else ""


def _matches(host: str, pattern: str) -> bool:
    host, pattern = host.lower().rstrip("."), pattern.lower().rstrip(".")
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _useless(reason: str) -> HttpToolError:
    """The error of an answer that can't be used."""
    return HttpToolError(f"the server's answer can't be used: {reason}")


def _checked(config: HttpToolConfig) -> ParametersSchema:
    """The parameters; refuses what can't work when the tool is made, and not in the middle of a conversation."""
    schema = config.json_schema
    if schema.get("type", "object") != "object" or not isinstance(schema.get("properties", {}), Mapping):
        raise ToolDeclarationError(config.name, 'its JSON schema has to be of {"type": "object"}')
    parameters = to_parameters(schema, config.name)
    properties = parameters["properties"]
    if not config.host or any(letter in config.host for letter in "/@?#[] \\"):
        raise ToolDeclarationError(config.name, f"{config.host!r} is no host: give its name or address alone")
    if not config.path.startswith("/"):
        raise ToolDeclarationError(config.name, "its path has to begin with /")
    if config.port not in range(1, 65536) or config.scheme not in DEFAULT_PORTS:
        raise ToolDeclarationError(config.name, f"{config.port} is no port")
    for name in PLACEHOLDER.findall(config.path):
        if name not in properties or name not in parameters.get("required", ()):
            raise ToolDeclarationError(
                config.name, f"{{{name}}} of its path has to be a required property of the schema"
            )
    for name in config.query_params:
        if name not in properties:
            raise ToolDeclarationError(
                config.name, f"query_params names {name!r}, which the schema does not have"
            )
    return parameters
