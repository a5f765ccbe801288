"""The application of `callboard dashboard`: its pages, which are files, and the API that they stand on."""

from __future__ import annotations

import secrets
from hashlib import sha256
from importlib.resources import files
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route as WebRoute

from callboard.runtime.runtime import RedisAgentRuntime
from callboard.web.access import DoorOptions, Identity, Tokens
from callboard.web.api import ROUTES
from callboard.web.application import HANDLERS, api_routes
from callboard.web.event_stream import Streams
from callboard.web.problems import Problem
from callboard.web.served_runs import ServedRuns

from .operations import Operations
from .sign_in import EVERYTHING, READING, SignIn
from .watcher import Watcher

KINDS: Final = {
    "html": "text/html",
    "css": "text/css",
    "mjs": "text/javascript",
    "svg": "image/svg+xml",
}
"""The files that are given out, by the ends of their names."""

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


def dashboard(
    runtime: RedisAgentRuntime,
    tokens: Tokens,
    *,
    hosts: frozenset[str],
    max_body: int = 1_000_000,
    max_streams: int = 200,
) -> Starlette:
    """Make the application. Its `state.streams` are closed before a process ends.

    Args:
        runtime: Reaches the server; it runs no agents.
        tokens: Who may come in.
        hosts: Names under which it is reached, in small letters.
        max_body: Largest body, in bytes.
        max_streams: Most streams of events at once.
    """
    watcher, streams = Watcher(runtime), Streams(max_streams)
    sign_in = SignIn(tokens, DoorOptions(tokens, hosts, frozenset(), True, max_body, max_streams))
    options = DoorOptions(sign_in.who, hosts, frozenset(), True, max_body, max_streams)

    def teams() -> dict[str, str]:
        """Those that a look has found: a manager has members, and their types begin with its name."""
        seen = watcher.seen
        names = [] if seen is None else [one.type for one in seen.view.types]
        return {name: "" for name in names if any(one.startswith(f"{name}.") for one in names)}

    runs = ServedRuns(runtime, teams, is_whole=True)
    table = (*Operations(watcher).routes(), *ROUTES)
    made = Starlette(
        routes=[
            *api_routes(table, runs, streams, options),
            WebRoute("/sign-in", sign_in.sign_in, methods=["POST"]),
            WebRoute("/healthz", _alive),
            WebRoute("/static/{name:path}", _file),
            WebRoute("/{page:path}", _page),
        ],
        exception_handlers=HANDLERS,
    )
    made.state.streams = streams
    return made


def one_token(name: str, *, read_only: bool) -> tuple[str, Tokens]:
    """A token for who begins the dashboard, and how it is known.

    Args:
        name: Who answers and pauses, as others see it.
        read_only: Whether it may look only.
    """
    token = secrets.token_urlsafe(24)
    identity = Identity(name=name, scopes=READING if read_only else EVERYTHING)
    return token, Tokens([(sha256(token.encode()).hexdigest(), identity)])


async def _alive(request: Request) -> Response:
    return PlainTextResponse("alive\n")


async def _page(request: Request) -> Response:
    if request.url.path.startswith(("/api/", "/v1/", "/mcp", "/a2a/")):
        raise Problem(404, "there is nothing at this address of the dashboard")
    return _given("index.html")


async def _file(request: Request) -> Response:
    return _given(request.path_params["name"])


def _given(name: str) -> Response:
    known = name in _names()
    if not known:
        raise Problem(404, "there is no such file")
    content = (files("callboard.web.dashboard") / "static" / name).read_bytes()
    return Response(content, headers=HEADERS, media_type=KINDS[name.rpartition(".")[2]])


def _names() -> frozenset[str]:
    """All files: nothing else is read, whatever an address says."""
    folder = files("callboard.web.dashboard") / "static"
    found = {one.name for one in folder.iterdir() if one.is_file()}
    for room in ("pages", "vendor"):
        found |= {f"{room}/{one.name}" for one in (folder / room).iterdir()}
    return frozenset(name for name in found if name.rpartition(".")[2] in KINDS)
