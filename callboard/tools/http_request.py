"""The request of an HTTP tool: the place of each argument in it, and the request that follows a redirect."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote, urlencode, urljoin, urlsplit

from .errors import HttpAnswerError, ToolArgumentsError

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
            HttpAnswerError: It leads nowhere, to something other than HTTP, from https to http, or to a port that
                is neither the one of this request nor the usual one.
        """
        try:
            there = urlsplit(urljoin(f"{self.scheme}://{self.authority}{self.target}", location))
            port = there.port
        except ValueError as error:
            raise HttpAnswerError(f"its redirect was not followed: it names no address ({error})") from error
        if there.scheme not in DEFAULT_PORTS or not there.hostname:
            raise HttpAnswerError("its redirect was not followed: it does not lead to http or https")
        if self.scheme == "https" and there.scheme == "http":
            raise HttpAnswerError("its redirect was not followed: it leads from https to http")
        port = port or DEFAULT_PORTS[there.scheme]
        if port not in (self.port, DEFAULT_PORTS[there.scheme]):
            raise HttpAnswerError(f"its redirect was not followed: it leads to the port {port}")
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
