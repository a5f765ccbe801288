"""Calls a tool and makes a result of its answer or error. All workbenches call tools through this."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from functools import partial
from typing import Any, Final

from callboard.broker.errors import FencedError, ServerUnavailableError
from callboard.cancellation import CancellationToken
from callboard.memory.llm_messages import FunctionCall
from callboard.suspension import suspends

from .approval import NeedsApproval
from .asked import AskedCall, name_of_call, read_call
from .base import StreamTool, Tool
from .context import current_tool_context
from .errors import ApprovalMissingError, ToolError
from .limits import run_limited, stream_limited
from .results import ToolResult, error_result, result_of
from .sizes import DEFAULT_LIMITS, ResultLimits
from .workbench import StreamWorkbench, Workbench

logger = logging.getLogger("callboard.actors")

PASSED_ON: Final = (asyncio.CancelledError, GeneratorExit, FencedError, ServerUnavailableError)
"""Errors that are no result: whoever waits for the tool has gone, or can't use or keep what it returns."""


class CallingWorkbench(Workbench):
    """A workbench of tools that are objects here; subclasses find the tool for a name.

    Args:
        timeout: Seconds until a call is given up, for tools without a limit of their own; None: no limit.
        limits: How large results may be.
    """

    def __init__(self, timeout: float | None, limits: ResultLimits = DEFAULT_LIMITS) -> None:
        self._timeout = timeout
        self._limits = limits

    @abstractmethod
    def _find(self, name: str) -> Tool:
        """The tool that models know by this name.

        Raises:
            UnknownToolError: They can't call it (a LookupError).
        """

    def approval_of(self, name: str) -> NeedsApproval:
        """What the tool itself says; see `Workbench.approval_of`."""
        try:
            return needs_approval_of(self._find(name))
        except ToolError:
            return False

    def _admitted(self, asked: AskedCall) -> Tool:
        """The tool that is called.

        Raises:
            UnknownToolError: There is none (a LookupError).
            ApprovalMissingError: A person has to allow the call, and nobody was asked.
        """
        tool = self._find(asked.name)
        # guard: a tool whose calls have to be allowed is called by nobody who has not asked
        if self.approval_of(asked.name) is not False and current_tool_context().allowed != asked.name:
            raise ApprovalMissingError(asked.name)
        return tool

    async def call_tool(
        self,
        name: str | FunctionCall,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Call a tool; see `Workbench.call_tool`.

        Args:
            name: As `list_tools` has it; or a whole call as it comes from a model, whose arguments are JSON text.
            arguments: By name, as plain data; None: none, or those of the model's call.
            cancellation_token: Ends the tool when it is cancelled.
            call_id: The id of the call; None: none, or that of the model's call.

        Returns:
            The result; also of broken JSON, which becomes an error that the model reads.
        """
        try:
            asked = read_call(name, arguments, call_id)
            tool = self._admitted(asked)
        except ToolError as error:
            return error_result(name_of_call(name), error)
        return await call(
            tool, asked.name, asked.arguments, cancellation_token, asked.call_id, self._timeout, self._limits
        )


class CallingStreamWorkbench(CallingWorkbench, StreamWorkbench):
    """The same, where some tools yield something on the way."""

    async def call_tool_stream(
        self,
        name: str | FunctionCall,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> AsyncGenerator[Any, None]:
        """Call a tool; what it yields on the way, and the ToolResult at the end."""
        try:
            asked = read_call(name, arguments, call_id)
            tool = self._admitted(asked)
        except ToolError as error:
            yield error_result(name_of_call(name), error)
            return
        async for item in call_stream(
            tool, asked.name, asked.arguments, cancellation_token, asked.call_id, self._timeout, self._limits
        ):
            yield item


async def call(
    tool: Tool,
    name: str,
    arguments: Mapping[str, Any] | None,
    token: CancellationToken | None,
    call_id: str | None,
    timeout: float | None,
    limits: ResultLimits = DEFAULT_LIMITS,
) -> ToolResult:
    """Run a tool.

    Args:
        tool: The tool.
        name: The name that the model used.
        arguments: Its arguments by name; None: none.
        token: Ends it when it is cancelled.
        call_id: The id that the model gave to the call.
        timeout: Seconds until it is given up, unless the tool has a limit of its own; None: no limit.
        limits: How large the result may be.

    Returns:
        The result; an error is one too.

    Raises:
        asyncio.CancelledError: The token, or the caller, was cancelled.
        FencedError: This worker has lost the message that it handles.
        ServerUnavailableError: The server of the bus was lost in the middle of it.
    """
    given = {} if arguments is None else arguments
    try:
        value = await run_limited(
            name, lambda inner: tool.run_json(given, inner, call_id), token, limit_of(tool, timeout)
        )
        return limits.within(result_of(tool, name, value))
    except PASSED_ON:
        raise
    except BaseException as error:
        if suspends(error):
            raise
        return failed_result(name, error)


async def call_stream(
    tool: Tool,
    name: str,
    arguments: Mapping[str, Any] | None,
    token: CancellationToken | None,
    call_id: str | None,
    timeout: float | None,
    limits: ResultLimits = DEFAULT_LIMITS,
) -> AsyncIterator[Any]:
    """Run a tool; yields what it yields, its last item as the result at the end. Otherwise as `call`."""
    if not isinstance(tool, StreamTool):
        yield await call(tool, name, arguments, token, call_id, timeout, limits)
        return
    work = partial(_stream, tool, {} if arguments is None else arguments, call_id)
    last: list[Any] = []
    try:
        async for item in stream_limited(name, work, token, limit_of(tool, timeout)):
            if last:
                yield last.pop()
            last.append(item)
        result = limits.within(result_of(tool, name, last.pop() if last else None))
    except PASSED_ON:
        raise
    except BaseException as error:
        if suspends(error):
            raise
        if last:
            yield last.pop()
        result = failed_result(name, error)
    yield result


def _stream(
    tool: StreamTool, arguments: Mapping[str, Any], call_id: str | None, token: CancellationToken
) -> Any:
    return tool.run_json_stream(arguments, token, call_id)


def needs_approval_of(tool: Tool) -> NeedsApproval:
    """Which calls of a tool a person has to allow, as the tool says."""
    needs: NeedsApproval = getattr(tool, "needs_approval", False)
    return needs


def limit_of(tool: Tool, timeout: float | None) -> float | None:
    """The time limit of a tool: its own, else the one that is given."""
    own: float | None = getattr(tool, "timeout", None)
    return timeout if own is None else own


def failed_result(name: str, error: BaseException) -> ToolResult:
    """The result for a tool that raised; its text goes to the model, and to the log at DEBUG only."""
    if isinstance(error, KeyboardInterrupt | SystemExit):
        raise error
    logger.info("the tool %s failed with %s", name, type(error).__name__)
    logger.debug("the tool %s failed", name, exc_info=error)
    return error_result(name, error)
