"""The address of an MCP server and the way to reach it, as plain data with AutoGen's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict


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
