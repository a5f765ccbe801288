"""Calls a tool and makes a result of its answer or error. All workbenches call tools through this."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from functools import partial
from typing import Any

from callboard.cancellation import CancellationToken

from .base import StreamTool, Tool
from .errors import ToolError
from .limits import run_limited, stream_limited
from .results import ToolResult, error_result, result_of
from .workbench import StreamWorkbench, Workbench

logger = logging.getLogger("callboard.actors")


class CallingWorkbench(Workbench):
    """A workbench of tools that are objects here; subclasses find the tool for a name.

    Args:
        timeout: Seconds until a call is given up, for tools without a limit of their own; None: no limit.
    """

    def __init__(self, timeout: float | None) -> None:
        self._timeout = timeout

    @abstractmethod
    def _find(self, name: str) -> Tool | ToolError:
        """The tool that models know by this name, or the reason why they can't call it."""

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Call a tool; see `Workbench.call_tool`."""
        tool = self._find(name)
        if isinstance(tool, ToolError):
            return error_result(name, tool)
        return await call(tool, name, arguments, cancellation_token, call_id, self._timeout)


class CallingStreamWorkbench(CallingWorkbench, StreamWorkbench):
    """The same, where some tools yield something on the way."""

    async def call_tool_stream(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> AsyncGenerator[Any, None]:
        """Call a tool; what it yields on the way, and the ToolResult at the end."""
        tool = self._find(name)
        if isinstance(tool, ToolError):
            yield error_result(name, tool)
            return
        async for item in call_stream(tool, name, arguments, cancellation_token, call_id, self._timeout):
            yield item


async def call(
    tool: Tool,
    name: str,
    arguments: Mapping[str, Any] | None,
    token: CancellationToken | None,
    call_id: str | None,
    timeout: float | None,
) -> ToolResult:
    """Run a tool.

    Args:
        tool: The tool.
        name: The name that the model used.
        arguments: Its arguments by name; None: none.
        token: Ends it when it is cancelled.
        call_id: The id that the model gave to the call.
        timeout: Seconds until it is given up, unless the tool has a limit of its own; None: no limit.

    Returns:
        The result; an error of any kind is one too.

    Raises:
        asyncio.CancelledError: The token, or the caller, was cancelled.
    """
    given = {} if arguments is None else arguments
    try:
        value = await run_limited(
            name, lambda inner: tool.run_json(given, inner, call_id), token, limit_of(tool, timeout)
        )
        return result_of(tool, name, value)
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - the model is told of any error
        return _failed(name, error)


async def call_stream(
    tool: Tool,
    name: str,
    arguments: Mapping[str, Any] | None,
    token: CancellationToken | None,
    call_id: str | None,
    timeout: float | None,
) -> AsyncIterator[Any]:
    """Run a tool; yields what it yields, its last item as the result at the end. Otherwise as `call`."""
    if not isinstance(tool, StreamTool):
        yield await call(tool, name, arguments, token, call_id, timeout)
        return
    work = partial(_stream, tool, {} if arguments is None else arguments, call_id)
    last: list[Any] = []
    try:
        async for item in stream_limited(name, work, token, limit_of(tool, timeout)):
            if last:
                yield last.pop()
            last.append(item)
        result = result_of(tool, name, last.pop() if last else None)
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - as in `call`
        if last:
            yield last.pop()
        result = _failed(name, error)
    yield result


def _stream(
    tool: StreamTool, arguments: Mapping[str, Any], call_id: str | None, token: CancellationToken
) -> Any:
    return tool.run_json_stream(arguments, token, call_id)


def limit_of(tool: Tool, timeout: float | None) -> float | None:
    """The time limit of a tool: its own, else the one that is given."""
    own: float | None = getattr(tool, "timeout", None)
    return timeout if own is None else own


def _failed(name: str, error: BaseException) -> ToolResult:
    if isinstance(error, KeyboardInterrupt | SystemExit):
        raise error
    logger.info("the tool %s failed with %s", name, type(error).__name__)
    logger.debug("the tool %s failed", name, exc_info=error)
    return error_result(name, error)
