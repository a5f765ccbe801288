"""The Starlette application: it routes, checks who asks, turns errors into problem details, and describes itself."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route as WebRoute

from callboard.app import App
from callboard.foundation import CallboardError
from callboard.runtime.runtime import RedisAgentRuntime

from .access import DoorOptions
from .api import ROUTES, Call, Route
from .event_stream import Streams
from .hooks import routes as hook_routes
from .mcp_endpoint import McpEndpoint
from .openai.door import routes as openai_routes
from .problems import RETRY, SAFE, Problem, problem_of
from .requests import check_origin, identity_of
from .served_runs import ServedRuns

API = "/api/v1"


def application(app: App, runtime: RedisAgentRuntime, options: DoorOptions) -> Starlette:
    """The application; see `callboard.web.asgi`. Its `state.streams` are closed before a process ends."""
    runs, streams = ServedRuns.of_app(app, runtime, options.serve_all), Streams(options.max_streams)

    routes = api_routes(ROUTES, runs, streams, options)
    described = json.dumps(openapi(app.name)).encode()

    async def describe(request: Request) -> Response:
        return Response(described, headers=dict(SAFE), media_type="application/json")

    async def ready(request: Request) -> Response:
        try:
            await runtime.open()
            await runtime.transport.admin.command("PING")
        except CallboardError as error:
            return Problem(503, str(error), RETRY).response()
        return PlainTextResponse("ready\n")

    async def alive(request: Request) -> Response:
        return PlainTextResponse("alive\n")

    routes += [
        WebRoute(f"{API}/openapi.json", _endpoint(describe)),
        WebRoute("/healthz", _endpoint(alive)),
        WebRoute("/readyz", _endpoint(ready)),
        *openai_routes(runs, streams, options),
        *hook_routes(app, runtime, options),
    ]
    if find_spec("mcp") is not None:  # the extra `mcp`
        routes.append(WebRoute("/mcp", McpEndpoint(runs, options, streams, app.name)))
    if _has_a2a():
        from .a2a.door import routes as a2a_routes

        routes += a2a_routes(runs, streams, options)
    if find_spec("ag_ui") is not None:  # the extra `agui`
        from .agui.door import routes as agui_routes

        routes += agui_routes(runs, streams, options)
    made = Starlette(routes=routes, exception_handlers=HANDLERS)
    made.state.streams = streams
    return made


def api_routes(
    table: Sequence[Route], runs: ServedRuns, streams: Streams, options: DoorOptions
) -> list[WebRoute]:
    """The lines of an API as routes: each checks where a request comes from and whose it is.

    Args:
        table: The lines.
        runs: The runs that there are.
        streams: Those of this process.
        options: The rules of the door.
    """

    async def do(route: Route, request: Request) -> Response:
        try:
            check_origin(request, options)
            identity = await identity_of(request, options, route.scope)
            return await route.does(Call(request, identity, runs, streams, options))
        except CallboardError as error:
            problem = problem_of(error)
            if problem is None:
                raise
            return problem.response()

    return [WebRoute(API + one.path, _endpoint(partial(do, one)), methods=[one.method]) for one in table]


def _has_a2a() -> bool:
    """Whether the extra `a2a` is installed: what another package brought may speak an older protocol."""
    try:
        return int(version("a2a-sdk").partition(".")[0]) >= 1
    except PackageNotFoundError:
        return False


def _endpoint(does: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """A function as Starlette takes it for one: a partial one it would take for an application."""

    async def answer(request: Request) -> Response:
        return await does(request)

    return answer


async def _told(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)  # noqa: S101 - for type checkers: it is registered for these
    return error.response()


async def _unrouted(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    return Problem(
        status, "there is nothing at this address" if status == 404 else "not so: see openapi.json"
    ).response()


async def _fault(request: Request, error: Exception) -> Response:
    # Starlette raises it again behind this, so it is in the server's log, and nothing of it in the answer.
    return Problem(500, "this is a fault of the server; its log says more").response()


HANDLERS: Final[Mapping[Any, Any]] = {HTTPException: _unrouted, Exception: _fault, Problem: _told}
"""Answers to what goes wrong, as Starlette takes them."""


def openapi(title: str) -> dict[str, Any]:
    """The API as OpenAPI 3.1, made of its table."""
    schemas: dict[str, Any] = {}
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(API + route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": "1"},
        "paths": paths,
        "security": [{"token": []}],
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    named = [_parameter("path", name) for name in re.findall(r"{(\w+)}", route.path)]
    asked = [_parameter("query", name) for name in route.query]
    content: dict[str, Any] = {"text/event-stream": {"schema": {"type": "string"}}}
    if route.gives is not None:
        content = {"application/json": {"schema": _schema(route.gives, schemas)}}
    problem = {"description": "A problem (RFC 9457).", "content": {"application/problem+json": {}}}
    told: dict[str, Any] = {
        "operationId": route.does.__name__,
        "summary": inspect.getdoc(route.does) or "",
        "description": f"Needs the scope `{route.scope}`.",
        "parameters": named + asked,
        "responses": {str(route.status): {"description": "Done.", "content": content}, "default": problem},
    }
    if route.takes is not None:
        body = {"application/json": {"schema": _schema(route.takes, schemas)}}
        told["requestBody"] = {"required": True, "content": body}
    return told


def _parameter(place: str, name: str) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": {"type": "string"}}


def _schema(model: Any, schemas: dict[str, Any]) -> dict[str, str]:
    made = model.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(made.pop("$defs", {}))
    schemas[model.__name__] = made
    return {"$ref": f"#/components/schemas/{model.__name__}"}
