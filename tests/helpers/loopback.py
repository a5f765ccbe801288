"""A real HTTP server on a free port of this machine, in the event loop of the test."""

from __future__ import annotations

import asyncio
import socket
from types import TracebackType
from typing import Any, Self

import uvicorn

from .eventually import eventually


class LoopbackServer:
    """Serves an ASGI application while it is open.

    Args:
        app: the application.
        **options: of uvicorn, such as ssl_certfile.
    """

    def __init__(self, app: Any, **options: Any) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(app, log_level="error", ws="none", timeout_graceful_shutdown=1, **options)
        self._server = uvicorn.Server(config)
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        await eventually(lambda: self._server.started, what="the server listens")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        if self._task is not None:
            await self._task
        self._socket.close()
