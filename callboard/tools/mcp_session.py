"""One connection to an MCP server, held open by a task of its own."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from callboard.foundation.errors import MissingPackageError

from .errors import McpConnectionError
from .mcp_params import McpServerParams, StdioServerParams, StreamableHttpServerParams
from .mcp_stderr import StderrTail

if TYPE_CHECKING:
    from mcp import Client

logger = logging.getLogger("callboard.actors")

CLOSING: Final = 10.0  # seconds that a server gets to end before its task is cancelled


@dataclass(slots=True)
class ProcessEnd:
    """How the process of a server ended; nothing while it runs, and of a server without one.

    Attributes:
        status: Its exit status, negative for a signal.
        stderr: The end of what it said on its standard error.
    """

    status: int | None = None
    stderr: str = ""


class McpSession:
    """A connection.

    The `mcp` package ties a connection to the task that opened it, so one task opens it, waits, and closes it; calls
    may come from any task.

    Args:
        params: The server.
    """

    def __init__(self, params: McpServerParams) -> None:
        self._params = params
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self._end = ProcessEnd()

    async def open(self, timeout: float) -> Client:
        """Connect, and greet the server.

        Args:
            timeout: Seconds.

        Raises:
            McpConnectionError: There is no such server, it ends at once, does not answer in time, or refuses.
            MissingPackageError: `mcp` is not installed (an ImportError).
        """
        try:
            # It takes a second or two, in which other agents of this process go on.
            await asyncio.to_thread(importlib.import_module, "mcp")
        except ModuleNotFoundError:
            raise MissingPackageError("mcp", "mcp") from None
        # In an empty context: it outlives the handler that happens to need it first.
        self._task = asyncio.create_task(self._hold(), context=contextvars.Context(), name="callboard-mcp")
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.shield(self._ready)
        except TimeoutError as error:
            await self.close()
            # Without its exit status: it is we who have ended it.
            reason = f"no answer within {timeout:g} s"
            raise McpConnectionError(self._params.label, reason, stderr=self._end.stderr) from error
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the connection, and the server's process if there is one."""
        self._closing.set()
        task = self._task
        if task is None:
            return
        if not self._ready.done() or self._ready.cancelled():
            task.cancel()
        done, _ = await asyncio.wait({task}, timeout=CLOSING)
        if not done:
            task.cancel()
            await asyncio.wait({task})

    def _transport(self) -> Any:
        params = self._params
        return _stdio(params, self._end) if isinstance(params, StdioServerParams) else _http(params)

    async def _hold(self) -> None:
        from mcp import Client

        try:
            async with Client(self._transport()) as client:
                self._ready.set_result(client)
                await self._closing.wait()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - transports raise all kinds of errors, in groups
            reason = _reason(error)
            if not self._ready.done():
                self._ready.set_exception(
                    McpConnectionError(self._params.label, reason, self._end.status, self._end.stderr)
                )
            else:
                logger.warning(
                    "the connection to the MCP server %s ended badly: %s", self._params.label, reason
                )
        finally:
            if not self._ready.done():
                self._ready.cancel()


@asynccontextmanager
async def _stdio(params: StdioServerParams, end: ProcessEnd) -> AsyncIterator[Any]:
    from mcp.client.stdio import StdioServerParameters, stdio_client

    server = StdioServerParameters(
        command=params.command,
        args=list(params.args),
        env=dict(params.env) if params.env is not None else None,
        cwd=params.cwd,
        encoding=params.encoding,
        encoding_error_handler=params.encoding_error_handler,
    )
    with StderrTail() as tail:
        client = stdio_client(server, errlog=tail.file)
        process: Any = None
        try:
            async with client as streams:
                tail.begun()
                process = _process_of(client)
                yield streams
        finally:
            end.status = getattr(process, "returncode", None)
            tail.begun()
            end.stderr = await tail.text()


def _process_of(client: Any) -> Any:
    """The process that `stdio_client` has started; None when it can't be found, for nothing public leads there."""
    frame = getattr(getattr(client, "gen", None), "ag_frame", None)
    return None if frame is None else frame.f_locals.get("process")


@asynccontextmanager
async def _http(params: StreamableHttpServerParams) -> AsyncIterator[Any]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    timeout = httpx2.Timeout(params.timeout, read=params.sse_read_timeout)
    async with (
        httpx2.AsyncClient(headers=dict(params.headers or {}), timeout=timeout) as client,
        streamable_http_client(
            params.url, http_client=client, terminate_on_close=params.terminate_on_close
        ) as streams,
    ):
        yield streams


def _reason(error: BaseException) -> str:
    """The innermost error of a group, in a sentence."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__
