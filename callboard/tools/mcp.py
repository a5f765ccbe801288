"""Tools of an MCP server as a workbench: the server's address, the session with it, and the workbench as plain data."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import importlib
import json
import logging
import os
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, TextIO
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from callboard.core.cancellation import CancellationToken
from callboard.foundation import MissingPackageError
from callboard.foundation.addresses import has_to_be_public, public_addresses, public_transport
from callboard.foundation.component import (
    Component,
    ComponentNotAllowedError,
    NotDumpableError,
    harmless,
    is_secret_name,
    permissions,
)
from callboard.memory.llm_messages import FunctionCall, Image

from .base import AnyArguments, validated
from .call import CheckedArguments, name_of_call, read_call
from .errors import ToolConnectionError, ToolError, ToolTimeoutError, UnknownToolError
from .schema import ToolSchema, to_parameters
from .static import Overrides, ToolOverride, run_limited
from .workbench import (
    DEFAULT_LIMITS,
    ImageResultContent,
    ResultContent,
    ResultLimits,
    TextResultContent,
    ToolResult,
    Workbench,
    checked_by_schema,
    error_result,
    texts,
)

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult, ContentBlock, Tool as McpTool

logger = logging.getLogger("callboard.actors")


class StdioServerParams(BaseModel):
    """A server that is started as a process and spoken to through its standard input and output.

    Attributes:
        command: The program.
        args: Its arguments.
        env: Added to the few environment variables that it inherits (such as PATH and HOME).
        cwd: Its folder; None: the current one.
        encoding: Of its texts.
        encoding_error_handler: The treatment of bytes that can't be decoded, as in `str.encode`.
        read_timeout_seconds: The longest time of a call. AutoGen has 5 seconds, which is too short for many tools.
    """

    model_config = ConfigDict(frozen=True)

    type: Literal["StdioServerParams"] = "StdioServerParams"
    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] | None = None
    cwd: str | None = None
    encoding: str = "utf-8"
    encoding_error_handler: Literal["strict", "ignore", "replace"] = "strict"
    read_timeout_seconds: float = 30.0

    @property
    def label(self) -> str:
        """Its name in errors: the program, without arguments, which may hold secrets."""
        return PurePath(self.command).name


class StreamableHttpServerParams(BaseModel):
    """A server that is spoken to by streamable HTTP.

    Attributes:
        url: Its endpoint.
        headers: Sent with every request.
        timeout: Seconds for connecting and sending, and until a call's answer is there.
        sse_read_timeout: Seconds without anything from the server after which a stream counts as broken.
        terminate_on_close: Tell the server when the session ends.
    """

    model_config = ConfigDict(frozen=True)

    type: Literal["StreamableHttpServerParams"] = "StreamableHttpServerParams"
    url: str
    headers: Mapping[str, str] | None = None
    timeout: float = 30.0
    sse_read_timeout: float = 300.0
    terminate_on_close: bool = True

    @property
    def read_timeout_seconds(self) -> float:
        """The longest time that a call may take."""
        return self.timeout

    @property
    def label(self) -> str:
        """Its name in errors: the address, without credentials and query."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"


McpServerParams = StdioServerParams | StreamableHttpServerParams

KEPT: Final = 2_000  # bytes of its end
CHUNK: Final = 65_536  # bytes
PATIENCE: Final = 1.0  # seconds that the rest of it may take to arrive once the process has ended
STDERR: Final = 2


class StderrTail:
    """A pipe for the standard error of a process.

    A thread reads it, and not the event loop: what it is passed on to may be a terminal that stands still. As a context
    manager it ends its half of the pipe; the thread ends with the last process that has the other one.

    Attributes:
        file: The end for the process.
    """

    def __init__(self) -> None:
        self._read, write = os.pipe()
        self.file: TextIO = os.fdopen(write, "w")
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._pass_on, name="callboard-mcp-stderr", daemon=True)
        self._thread.start()

    def begun(self) -> None:
        """The process has its end: without ours the pipe ends when the process does."""
        self.file.close()

    async def text(self) -> str:
        """The last lines, once the process has ended; "" when it said nothing."""
        await asyncio.to_thread(self._thread.join, PATIENCE)
        return bytes(self._kept).decode(errors="replace").strip()

    def _pass_on(self) -> None:
        with os.fdopen(self._read, "rb", buffering=0) as pipe:
            while data := pipe.read(CHUNK):
                self._kept += data
                del self._kept[:-KEPT]
                with contextlib.suppress(OSError):  # our own standard error may be closed
                    os.write(STDERR, data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()


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


def _named(params: StdioServerParams | StreamableHttpServerParams) -> str:
    return f"the MCP server {params.label}"


class McpSession:
    """A connection.

    The `mcp` package ties a connection to the task that opened it, so one task opens it, waits, and closes it; calls
    may come from any task.

    Args:
        params: The server.
        public: It may have public addresses only.
    """

    def __init__(self, params: McpServerParams, *, public: bool = False) -> None:
        self._params = params
        self._public = public
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self._end = ProcessEnd()

    async def open(self, timeout: float) -> Client:
        """Connect, and greet the server.

        Args:
            timeout: Seconds.

        Raises:
            ToolConnectionError: There is no such server, it ends at once, does not answer in time, or refuses.
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
            raise ToolConnectionError(_named(self._params), reason, stderr=self._end.stderr) from error
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
        if isinstance(params, StdioServerParams):
            return _stdio(params, self._end)
        return _http(params, public=self._public)

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
                    ToolConnectionError(
                        _named(self._params), reason, exit_status=self._end.status, stderr=self._end.stderr
                    )
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
async def _http(params: StreamableHttpServerParams, *, public: bool) -> AsyncIterator[Any]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    if public:
        # Said at once: of an error in a request the `mcp` package tells no reason
        parts = urlsplit(params.url)
        await public_addresses(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    transport = public_transport() if public else None
    timeout = httpx2.Timeout(params.timeout, read=params.sse_read_timeout)
    async with (
        httpx2.AsyncClient(
            headers=dict(params.headers or {}), timeout=timeout, transport=transport
        ) as client,
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


NAME: Final = "McpWorkbench"


class McpWorkbenchConfig(BaseModel):
    """An McpWorkbench as plain data; its fields are the arguments of McpWorkbench.

    Attributes:
        env_names: variables of the environment that the server gets where the config is loaded: those whose values are
            secrets are in no dump.
        model_client: AutoGen's, by which a server may ask a model; we have nothing like it, and refuse it.
    """

    model_config = ConfigDict(protected_namespaces=())

    server_params: Annotated[McpServerParams, Field(discriminator="type")]
    tool_overrides: dict[str, ToolOverride] = Field(default_factory=dict)
    connect_timeout: float = 30.0
    limits: ResultLimits = DEFAULT_LIMITS
    env_names: list[str] = Field(default_factory=list)
    model_client: dict[str, Any] | None = None

    @field_validator("model_client")
    @classmethod
    def _no_sampling(cls, given: object) -> None:
        if given is not None:
            raise ValueError("servers can't ask a model here: leave it out")


def written(
    params: McpServerParams,
    overrides: Mapping[str, ToolOverride],
    connect_timeout: float,
    limits: ResultLimits,
) -> McpWorkbenchConfig:
    """A workbench as plain data, without secrets.

    Raises:
        NotDumpableError: an argument of the program is a secret by its name (a TypeError).
    """
    names: list[str] = []
    if isinstance(params, StdioServerParams):
        secret = next((one for one in params.args if one.startswith("-") and is_secret_name(one)), None)
        if secret is not None:
            option = secret.partition("=")[0]
            raise NotDumpableError(NAME, f"{option} may be a secret: give it to the server in env")
        names = [name for name in params.env or () if is_secret_name(name)]
        params = params.model_copy(update={"env": harmless(params.env)})
    else:
        params = params.model_copy(update={"headers": harmless(params.headers)})
    return McpWorkbenchConfig(
        server_params=params,
        tool_overrides=dict(overrides),
        connect_timeout=connect_timeout,
        limits=limits,
        env_names=names,
    )


def params_of(config: McpWorkbenchConfig) -> McpServerParams:
    """The server that a config describes.

    Raises:
        ComponentNotAllowedError: it is a program that the caller did not allow (a ValueError).
    """
    params = config.server_params
    if not isinstance(params, StdioServerParams):
        return params
    if params.command not in permissions().commands:
        raise ComponentNotAllowedError(f"starting the program {params.command}", "commands", params.command)
    found = {name: os.environ[name] for name in config.env_names if name in os.environ}
    return params.model_copy(update={"env": {**(params.env or {}), **found} or None})


PAGES: Final = 100  # pages of a list of tools; a server that always has one more is stopped there
LABEL: Final = "tools/list"


class McpWorkbench(Workbench, Component[McpWorkbenchConfig]):
    """The tools of one MCP server, over stdio or streamable HTTP.

    It connects when it is first used. A connection that breaks is made again by the next call; the call that it broke
    in is repeated only if the server says of the tool that this does no harm (read-only or idempotent), else its
    result says that it is unknown whether it was done.

    Needs mcp: ``pip install 'callboard[mcp]'``. Only servers that you trust: one that is started as a process can do
    what you can, and what a server says of its tools goes to the model as it is.

    A dump (`dump_component`) has no secrets: variables of the environment are named where they are secret by their name,
    and found in the environment where it is loaded; such headers are left out. A program is started only when it is among
    the `commands` of `load_component`, and a server at private addresses is reached only when it is among the `hosts`.

    Args:
        server_params: The server.
        tool_overrides: Other names and descriptions, by the tools' own names.
        connect_timeout: Seconds until a server must have answered for the first time.
        limits: How large results may be.

    Raises:
        ToolDeclarationError: Two tools would have one name (a ValueError).
    """

    component_config_schema = McpWorkbenchConfig
    component_provider_override = "callboard.tools.McpWorkbench"

    def __init__(
        self,
        server_params: McpServerParams,
        tool_overrides: Mapping[str, ToolOverride] | None = None,
        *,
        connect_timeout: float = 30.0,
        limits: ResultLimits = DEFAULT_LIMITS,
    ) -> None:
        self._params = server_params
        self._overrides = Overrides(tool_overrides)
        self._connect_timeout = connect_timeout
        self._limits = limits
        self._public = False
        self._connecting = asyncio.Lock()
        self._session: McpSession | None = None
        self._client: Client | None = None
        self._tools: dict[str, McpTool] = {}

    @property
    def server_params(self) -> McpServerParams:
        """The server."""
        return self._params

    async def start(self) -> None:
        """Connect.

        Raises:
            ToolConnectionError: There is no connection (a ConnectionError).
            MissingPackageError: mcp is not installed (an ImportError).
        """
        await self._connected()

    async def stop(self) -> None:
        """End the connection, and the server's process if there is one."""
        async with self._connecting:
            session, self._session, self._client = self._session, None, None
        self._tools = {}
        if session is not None:
            await session.close()

    async def reset(self) -> None:
        """Connect anew; a server that is a process is started anew."""
        await self.stop()
        await self.start()

    async def list_tools(self) -> list[ToolSchema]:
        """The schemas of the server's tools, with overrides. Connects again if the connection was lost.

        Raises:
            ToolConnectionError: The server can't be reached, or does not answer in time (a ConnectionError).
            ToolDeclarationError: A tool would be shown by the name of another (a ValueError).
        """
        await self._refresh()
        return [self._overrides.shown(_schema(tool)) for tool in self._tools.values()]

    async def _refresh(self) -> None:
        for attempt in (1, 2):
            client = await self._connected()
            try:
                listing = run_limited(
                    LABEL,
                    partial(_all_tools, client),
                    None,
                    self._params.read_timeout_seconds,
                )
                self._tools = {tool.name: tool for tool in await listing}
                return
            except Exception as error:
                await self._drop(client)
                if attempt == 2 or isinstance(error, ToolTimeoutError):
                    raise ToolConnectionError(_named(self._params), str(error)) from error

    async def check_arguments(self, name: str, arguments: Mapping[str, Any]) -> CheckedArguments:
        """The arguments as the server's schema takes them; the server is asked for its tools where this one is new."""
        own = self._overrides.own_name(name)
        if own not in self._tools:
            await self._refresh()
        known = [self._tools[own]] if own in self._tools else list(self._tools.values())
        return checked_by_schema(name, arguments, [self._overrides.shown(_schema(one)) for one in known])

    async def call_tool(
        self,
        name: str | FunctionCall,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Call a tool, by its name or as a whole call of a model; see `CallingWorkbench.call_tool`."""
        try:
            asked = read_call(name, arguments, call_id)
            name, own = asked.name, self._overrides.own_name(asked.name)
            if own not in self._tools:
                await self._refresh()
            if own not in self._tools:
                shown = [self._overrides.shown_name(tool) for tool in self._tools]
                return error_result(name, UnknownToolError(name, shown))
            given = validated(AnyArguments, {} if asked.arguments is None else asked.arguments, name)
            return await self._call(name, own, given.model_dump(), cancellation_token)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - the model is told of any error
            return error_result(name_of_call(name), error)

    async def _call(
        self, name: str, own: str, arguments: dict[str, Any], token: CancellationToken | None
    ) -> ToolResult:
        attempts = (1, 2) if _may_be_repeated(self._tools[own]) else (2,)
        for attempt in attempts:
            client = await self._connected()
            try:
                result = await run_limited(
                    name,
                    partial(_ask, client, own, arguments),
                    token,
                    self._params.read_timeout_seconds,
                )
                made = ToolResult(name=name, result=_parts(result), is_error=result.is_error)
                return self._limits.within(made)
            except ToolError:
                raise
            except Exception as error:
                if not _is_lost(error):
                    raise
                await self._drop(client)
                if attempt == attempts[-1]:
                    raise self._lost(name) from error
        raise self._lost(name)

    def _lost(self, tool: str) -> ToolConnectionError:
        return ToolConnectionError(
            _named(self._params),
            f"its connection was lost while {tool} was called: it may or may not have done its work. "
            "The next call connects again",
        )

    async def _connected(self) -> Client:
        async with self._connecting:
            if self._client is None:
                session = McpSession(self._params, public=self._public)
                self._client = await session.open(self._connect_timeout)
                self._session = session
            return self._client

    async def _drop(self, client: Client) -> None:
        """Forgets a connection that is of no use any more, unless another call did so already."""
        async with self._connecting:
            if self._client is not client:
                return
            session, self._session, self._client = self._session, None, None
        if session is not None:
            await session.close()

    async def save_state(self) -> Mapping[str, Any]:
        """Nothing: what a server remembers is its own."""
        return {"type": "McpWorkbenchState", "version": "1.0.0"}

    def _to_config(self) -> McpWorkbenchConfig:
        return written(self._params, self._overrides.given, self._connect_timeout, self._limits)

    @classmethod
    def _from_config(cls, config: McpWorkbenchConfig) -> Self:
        params, overrides = params_of(config), config.tool_overrides
        made = cls(params, overrides, connect_timeout=config.connect_timeout, limits=config.limits)
        if isinstance(params, StreamableHttpServerParams):
            made._public = has_to_be_public(urlsplit(params.url).hostname or "")
        return made


async def _ask(
    client: Client, own: str, arguments: dict[str, Any], _token: CancellationToken
) -> CallToolResult:
    return await client.call_tool(own, arguments)


async def _all_tools(client: Client, _token: CancellationToken) -> list[McpTool]:
    tools: list[McpTool] = []
    cursor: str | None = None
    for _ in range(PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return tools


def _schema(tool: McpTool) -> ToolSchema:
    parameters = to_parameters(tool.input_schema, tool.name)
    return ToolSchema(name=tool.name, description=tool.description or "", parameters=parameters)


def _may_be_repeated(tool: McpTool) -> bool:
    hints = tool.annotations
    return hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)


def _is_lost(error: Exception) -> bool:
    """True if the connection, or the server's memory of it, is gone."""
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST

    return isinstance(error, MCPError) and error.code in (CONNECTION_CLOSED, INVALID_REQUEST)


def _parts(result: CallToolResult) -> list[ResultContent]:
    parts: list[ResultContent] = [_part(block) for block in result.content]
    if not parts and result.structured_content is not None:
        parts = list(texts(json.dumps(result.structured_content, ensure_ascii=False)))
    return parts


def _part(block: ContentBlock) -> TextResultContent | ImageResultContent:
    if block.type == "text":
        text = block.text
    elif block.type == "image":
        return ImageResultContent(content=Image(data=block.data, mime_type=block.mime_type))
    elif block.type == "resource_link":
        text = f"[resource {block.name}: {block.uri}]"
    elif block.type == "resource":
        text = getattr(block.resource, "text", "") or f"[resource {block.resource.uri}, no text]"
    else:
        text = f"[audio, {block.mime_type}]"
    return texts(text)[0]
