"""Workbenches with a fixed list of tools: their calls within time limits, and other names for tools."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from callboard.broker.errors import FencedError, ServerUnavailableError
from callboard.core.cancellation import CancellationToken, suspends
from callboard.core.protocol import AgentRuntime
from callboard.foundation.component import Component, ComponentLoader, ComponentModel, dumped
from callboard.memory.llm_messages import FunctionCall

from .approval import NeedsApproval
from .base import StreamTool, Tool, checked_arguments
from .call import AskedCall, CheckedArguments, current_tool_context, name_of_call, read_call
from .errors import (
    UNUSABLE,
    CallRefusedError,
    ToolDeclarationError,
    ToolEndedError,
    ToolError,
    ToolTimeoutError,
    UnknownToolError,
    duplicate_tool,
    not_a_tool,
    unloadable,
)
from .remote import RemoteTool
from .schema import ToolSchema
from .workbench import (
    DEFAULT_LIMITS,
    ResultLimits,
    StreamWorkbench,
    ToolResult,
    Workbench,
    error_result,
    result_of,
)

logger = logging.getLogger("callboard.actors")

T = TypeVar("T")
GRACE: Final = 2.0  # seconds that cancelled work gets to end
_abandoned: set[asyncio.Future[Any]] = set()


async def run_limited(
    tool: str,
    work: Callable[[CancellationToken], Coroutine[Any, Any, T]],
    token: CancellationToken | None,
    timeout: float | None,
) -> T:
    """Run the work of a tool.

    Args:
        tool: Its name, for errors.
        work: Is given a token of its own, which is cancelled when the work has to end for any reason.
        token: Ends the work when it is cancelled.
        timeout: Seconds until the work is ended; None: no limit.

    Raises:
        ToolTimeoutError: It took too long (a TimeoutError).
        ToolEndedError: It called sys.exit or was cancelled from inside.
        asyncio.CancelledError: The token, or the waiting task, was cancelled.
        Exception: Any error of the work.
    """
    if token is not None and token.is_cancelled():
        raise asyncio.CancelledError(f"cancelled before {tool} began")
    inner = CancellationToken()
    cancelled: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    task: asyncio.Task[T] = asyncio.ensure_future(_contained(tool, work(inner)))
    if token is not None:
        token.link_future(cancelled)
    try:
        await asyncio.wait((task, cancelled), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        await _end(tool, task, inner)
        raise
    finally:
        was_cancelled = cancelled.cancelled()
        cancelled.cancel()
    if task.done():
        return _outcome(tool, task)
    has_ended = await _end(tool, task, inner)
    if was_cancelled:
        raise asyncio.CancelledError(f"{tool} was cancelled")
    raise ToolTimeoutError(tool, timeout or 0.0, not has_ended)


async def stream_limited(
    tool: str,
    work: Callable[[CancellationToken], AsyncGenerator[T, None]],
    token: CancellationToken | None,
    timeout: float | None,
) -> AsyncIterator[T]:
    """Run the work of a tool that yields; as `run_limited`. It is not ahead of the reader by more than an item."""
    items: asyncio.Queue[T] = asyncio.Queue(1)

    async def pump(inner: CancellationToken) -> None:
        # The whole generator runs in one task: context variables and cancel scopes in it would break otherwise.
        async for item in work(inner):
            await items.put(item)

    running = asyncio.ensure_future(run_limited(tool, pump, token, timeout))
    try:
        while not running.done() or not items.empty():
            getter = asyncio.ensure_future(items.get())
            await asyncio.wait({getter, running}, return_when=asyncio.FIRST_COMPLETED)
            if getter.done():
                yield getter.result()
            else:
                getter.cancel()
        await running
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait({running})


async def _contained(tool: str, work: Coroutine[Any, Any, T]) -> T:
    """A tool that calls sys.exit() ends itself and not the process: the loop would pass it on at once."""
    try:
        return await work
    except (SystemExit, GeneratorExit) as error:
        raise ToolEndedError(tool, f"it ended itself with {type(error).__name__}") from error


def _outcome(tool: str, task: asyncio.Task[T]) -> T:
    if task.cancelled():
        raise ToolEndedError(tool, "it was cancelled from inside")
    return task.result()


async def _end(tool: str, task: asyncio.Task[Any], inner: CancellationToken) -> bool:
    """Cancels the work; False when it does not care."""
    inner.cancel()
    task.cancel()
    await asyncio.wait({task}, timeout=GRACE)
    if task.done():
        _forget(task)
        return True
    _abandoned.add(task)
    task.add_done_callback(_forget)
    logger.warning("the tool %s ignores that it was cancelled and goes on in the background", tool)
    return False


def _forget(task: asyncio.Future[Any]) -> None:
    """Takes the exception of work that was ended: no caller needs it, and asyncio complains if it is never retrieved."""
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()


PASSED_ON: Final = (asyncio.CancelledError, GeneratorExit, FencedError, ServerUnavailableError)
"""Errors that are no result: the caller has gone, or can't use or keep what the tool returns."""


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
        """The tool's own setting; see `Workbench.approval_of`."""
        try:
            return needs_approval_of(self._find(name))
        except ToolError:
            return False

    def _declared(self, name: str) -> Tool:
        """The tool that says what its arguments are, also where another process runs it."""
        return self._find(name)

    async def check_arguments(self, name: str, arguments: Mapping[str, Any]) -> CheckedArguments:
        """The arguments as the tool itself takes them; see `Workbench.check_arguments`."""
        return checked_arguments(self._declared(name).args_type(), arguments, name)

    def _admitted(self, asked: AskedCall) -> Tool:
        """The tool that is called.

        Raises:
            UnknownToolError: There is none (a LookupError).
            CallRefusedError: A person has to allow the call, and none was asked.
        """
        tool = self._find(asked.name)
        # A workbench of a user's own around this one may call it without `run_tools`, which does the asking.
        # guard: a tool whose calls have to be allowed is called by nobody who has not asked
        if self.approval_of(asked.name) is not False and current_tool_context().allowed != asked.name:
            raise CallRefusedError(
                asked.name,
                "a person has to allow it, and nobody was asked. Call it through an assistant or `run_tools`; "
                "a workbench around it hands on its `approval_of`.",
            )
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


class ToolOverride(BaseModel):
    """A name or description that models are shown instead of the tool's own.

    Attributes:
        name: Another name; None: its own.
        description: Another description; None: its own.
    """

    model_config = ConfigDict(frozen=True)

    name: str | None = None
    description: str | None = None


class Overrides:
    """The overrides of one workbench.

    Args:
        overrides: By the tool's own name.

    Raises:
        ToolDeclarationError: Two tools would have one name (a ValueError).
    """

    def __init__(self, overrides: Mapping[str, ToolOverride] | None = None) -> None:
        self._overrides = dict(overrides or {})
        self._own_names: dict[str, str] = {}
        for own, override in self._overrides.items():
            if override.name is None or override.name == own:
                continue
            other = self._own_names.setdefault(override.name, own)
            if other != own:
                raise ToolDeclarationError(
                    f"Tool override of {own!r}",
                    f"the name {override.name!r} is used by multiple tools: {other}, {own}",
                    UNUSABLE,
                )

    @property
    def given(self) -> dict[str, ToolOverride]:
        """By the tools' own names."""
        return dict(self._overrides)

    def check(self, names: Collection[str]) -> None:
        """Compare with the tools that there are.

        Args:
            names: Their own names.

        Raises:
            UnknownToolError: There is no tool of a name that an override is for (a LookupError).
            ToolDeclarationError: A tool would be shown by the name of another (a ValueError).
        """
        for own in self._overrides:
            if own not in names:
                raise UnknownToolError(own, list(names))
        shown: set[str] = set()
        for own in names:
            name = self.shown_name(own)
            if name in shown:
                reason = f"the name {name!r} conflicts with an existing tool"
                raise ToolDeclarationError(f"Tool override of {own!r}", reason, UNUSABLE)
            shown.add(name)

    def own_name(self, shown: str) -> str:
        """The tool's own name for the one that it is called by."""
        return self._own_names.get(shown, shown)

    def shown_name(self, own: str) -> str:
        """The name that a tool is shown by."""
        override = self._overrides.get(own)
        return own if override is None or override.name is None else override.name

    def shown(self, schema: ToolSchema) -> ToolSchema:
        """A schema as the model is to see it."""
        override = self._overrides.get(schema["name"])
        if override is None:
            return schema
        changed = schema.copy()
        changed["name"] = self.shown_name(schema["name"])
        if override.description is not None:
            changed["description"] = override.description
        return changed


STATE_VERSION = "1.0.0"


class StaticWorkbenchConfig(BaseModel):
    """A StaticWorkbench as plain data; its fields are the arguments of StaticWorkbench."""

    tools: list[ComponentModel] = Field(default_factory=list)
    tool_overrides: dict[str, ToolOverride] = Field(default_factory=dict)
    timeout: float | None = None
    limits: ResultLimits = DEFAULT_LIMITS
    on: str | None = None


class StaticWorkbench(CallingWorkbench, Component[StaticWorkbenchConfig]):
    """A fixed list of tools.

    Args:
        tools: The tools.
        tool_overrides: Other names and descriptions, by the tools' own names.
        timeout: Seconds until a call is given up, for tools without a limit of their own; None: no limit.
        limits: How large results may be.
        on: Agent type that runs the tools, in processes of its own; None: they run here. See ToolAgent.
        runtime: The runtime by which that agent type is reached; see RemoteTool.

    Raises:
        ToolDeclarationError: Something else is among the tools (a TypeError); or two tools, or an override and a tool, have
            one name (a ValueError). AutoGen calls the first of them.
        UnknownToolError: An override fits no tool (a LookupError).
    """

    component_config_schema = StaticWorkbenchConfig
    component_provider_override = "callboard.tools.StaticWorkbench"

    def __init__(
        self,
        tools: Sequence[Tool],
        tool_overrides: Mapping[str, ToolOverride] | None = None,
        *,
        timeout: float | None = None,
        limits: ResultLimits = DEFAULT_LIMITS,
        on: str | None = None,
        runtime: AgentRuntime | None = None,
    ) -> None:
        super().__init__(timeout, limits)
        self._tools = self._given_tools = tools_by_name(tools)
        self._on = on
        self._overrides = Overrides(tool_overrides)
        self._overrides.check(self._tools)
        if on is not None:
            self._tools = {
                name: RemoteTool(tool.schema, on, runtime=runtime, timeout=limit_of(tool, timeout))
                for name, tool in self._tools.items()
            }

    @property
    def names(self) -> list[str]:
        """The names of the tools, with overrides."""
        return [self._overrides.shown(tool.schema)["name"] for tool in self._tools.values()]

    async def list_tools(self) -> list[ToolSchema]:
        """The schemas of the tools, with overrides."""
        return [self._overrides.shown(tool.schema) for tool in self._tools.values()]

    def _find(self, name: str) -> Tool:
        tool = self._tools.get(self._overrides.own_name(name))
        if tool is None:
            raise UnknownToolError(name, [self._overrides.shown_name(own) for own in self._tools])
        return tool

    def _declared(self, name: str) -> Tool:
        self._find(name)
        return self._given_tools[self._overrides.own_name(name)]

    def approval_of(self, name: str) -> NeedsApproval:
        """The tool's own setting, also of one that runs elsewhere; see `Workbench.approval_of`."""
        tool = self._given_tools.get(self._overrides.own_name(name))
        return False if tool is None else needs_approval_of(tool)

    async def save_state(self) -> Mapping[str, Any]:
        """The states of the tools."""
        states = {name: dict(await tool.save_state_json()) for name, tool in self._tools.items()}
        return {"type": "StaticWorkbenchState", "version": STATE_VERSION, "tools": states}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over the states of the tools that are here; those of others are ignored, as in AutoGen.

        Raises:
            ToolDeclarationError: It is no such state, or a tool can't use its part (a ValueError).
        """
        for name, part in states_of(state, "StaticWorkbenchState").items():
            if name in self._tools:
                await self._tools[name].load_state_json(part)

    def _to_config(self) -> StaticWorkbenchConfig:
        return StaticWorkbenchConfig(
            tools=[dumped(tool, self) for tool in self._given_tools.values()],
            tool_overrides=self._overrides.given,
            timeout=self._timeout,
            limits=self._limits,
            on=self._on,
        )

    @classmethod
    def _from_config(cls, config: StaticWorkbenchConfig) -> Self:
        return cls(
            [ComponentLoader.load_component(tool, Tool) for tool in config.tools],  # type: ignore[type-abstract]
            config.tool_overrides,
            timeout=config.timeout,
            limits=config.limits,
            on=config.on,
        )


class StaticStreamWorkbench(StaticWorkbench, CallingStreamWorkbench):
    """A fixed list of tools, some of which yield something on the way. Otherwise as StaticWorkbench."""

    component_provider_override = "callboard.tools.StaticStreamWorkbench"


def tools_by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    """The tools by their names.

    Raises:
        ToolDeclarationError: Something else is among them (a TypeError), or two have one name (a ValueError).
    """
    found: dict[str, Tool] = {}
    for tool in tools:
        if not isinstance(tool, Tool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise not_a_tool(tool)
        if tool.name in found:
            raise duplicate_tool(tool.name)
        found[tool.name] = tool
    return found


def states_of(state: Mapping[str, Any], kind: str) -> Mapping[str, Mapping[str, Any]]:
    """The states of tools in the saved state of a workbench.

    Raises:
        ToolDeclarationError: It is none of this kind of workbench (a ValueError).
    """
    given, states = state.get("type"), state.get("tools", {})
    if given != kind:
        raise unloadable(f"it is of the type {given!r}, not {kind!r}")
    if not isinstance(states, Mapping) or not all(isinstance(part, Mapping) for part in states.values()):
        raise unloadable("'tools' has to map the name of each tool to its state")
    return states
