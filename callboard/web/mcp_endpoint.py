"""The door for MCP over HTTP: an ASGI application at one path, which loads the protocol with its first request.

The package of the protocol takes half a second and 24 MB, and most doors have no such client.
"""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from .access import DoorOptions, Identity
from .event_stream import Streams
from .problems import Problem
from .requests import check_origin, identity_of
from .served_runs import ServedRuns


class McpEndpoint:
    """The door as an ASGI application.

    A call that waits for its run counts as one that reads it: there are as many of both as a process may have.

    Args:
        runs: The runs that there are.
        options: The rules of the door.
        streams: Those of this process.
        name: Of the server.
    """

    def __init__(self, runs: ServedRuns, options: DoorOptions, streams: Streams, name: str) -> None:
        self._runs = runs
        self._options = options
        self._streams = streams
        self._name = name
        self._loaded: asyncio.Future[ASGIApp] | None = None
        self._serving: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive)
        try:
            check_origin(request, self._options)
            await identity_of(request, self._options, "read")
            if request.method != "POST":
                # Where there are no sessions, a stream of what the server has to say would be open for ever, and silent.
                raise Problem(405, "send requests by POST", {"allow": "POST"})
            self._streams.check_room()
        except Problem as problem:
            await problem.response()(scope, receive, send)
            return
        with self._streams.one():
            await (await self._app())(scope, receive, send)

    async def _app(self) -> ASGIApp:
        # Not in the application's lifespan: one that is mounted in another application has none.
        if self._loaded is None:
            self._loaded = asyncio.get_running_loop().create_future()
            self._serving = asyncio.create_task(self._serve(self._loaded))
        return await asyncio.shield(self._loaded)

    async def _serve(self, loaded: asyncio.Future[ASGIApp]) -> None:
        """Load the protocol, and serve until the process ends. What goes wrong is told to each request."""
        try:
            # In a thread: those who read runs meanwhile are not to wait.
            await asyncio.to_thread(importlib.import_module, "callboard.web.mcp_door")
            from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

            from .mcp_door import McpDoor

            server = McpDoor(self._runs, self._identity, self._name).server
            # Without sessions: the next request may come to another process.
            manager = StreamableHTTPSessionManager(
                server, stateless=True, max_request_body_size=self._options.max_body
            )
            async with manager.run():
                loaded.set_result(manager.handle_request)
                await self._streams.closing.wait()
        except Exception as error:
            if loaded.done():
                raise
            loaded.set_exception(error)

    async def _identity(self, ctx: Any, scope: str) -> Identity:
        assert isinstance(ctx.request, Request)  # noqa: S101 - every request comes by HTTP here
        return await identity_of(ctx.request, self._options, scope)
