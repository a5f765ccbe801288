"""A receiver of webhooks at a real socket, which does what a script says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from standardwebhooks import Webhook

from .servers import free_port

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@dataclass(frozen=True, slots=True)
class Post:
    """One request, as it came; names of headers are in small letters."""

    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def verified(self, secret: str = SECRET) -> Any:
        """What it says, by the public library for receivers."""
        return Webhook(secret).verify(self.body, self.headers)


Behaviour = Callable[[asyncio.StreamWriter], Awaitable[None]]


def says(status: int, *headers: str, body: bytes = b"") -> Behaviour:
    """Answers at once."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status} Said", f"content-length: {len(body)}", "connection: close", *headers]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)

    return answer


async def hangs(writer: asyncio.StreamWriter) -> None:
    """Never answers."""
    await asyncio.Event().wait()


async def drips(writer: asyncio.StreamWriter) -> None:
    """Answers one byte at a time, and never to the end."""
    writer.write(b"HTTP/1.1 204 No Content\r\nx: ")
    while True:
        writer.write(b"a")
        await writer.drain()
        await asyncio.sleep(0.1)


class Receiver:
    """Takes what is posted to it.

    Args:
        *script: What is done for the first requests; then all are answered 204.
        port: Where it listens; None: at a free one.
    """

    def __init__(self, *script: Behaviour, port: int | None = None) -> None:
        self.port = free_port() if port is None else port
        self.posts: list[Post] = []
        self._script = list(script)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/told?secret=s3cr3t"

    def told(self) -> list[Any]:
        return [json.loads(post.body) for post in self.posts]

    def has_more_than(self, count: int) -> bool:
        return len(self.posts) > count

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")[1:-2]
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            body = await reader.readexactly(int(headers["content-length"]))
            self.posts.append(Post(headers, body))
            does = self._script.pop(0) if self._script else says(204)
            await does(writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
