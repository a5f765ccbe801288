"""The stand-in server of memory:// URLs: fakeredis, inside this process, for tests without files and ports.

Everything with one name shares one store for as long as the process lives. Blocking reads are answered by fakeredis.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

from ..errors import CommandError, ConnectionLostError, EncodeError, MissingPackageError
from .endpoint import Endpoint
from .wire import Argument

_servers: dict[str, Any] = {}


def server_of(endpoint: Endpoint) -> Any:
    """The store of a name, made when first asked for."""
    try:
        import fakeredis
    except ImportError as error:
        raise MissingPackageError("fakeredis[lua]", "memory:// URLs") from error
    return _servers.setdefault(endpoint.host, fakeredis.FakeServer(version=(7, 0)))


class MemoryChannel:
    """A Channel on a store in this process."""

    def __init__(self, endpoint: Endpoint) -> None:
        import fakeredis

        self._endpoint = endpoint
        self._client = fakeredis.FakeAsyncRedis(
            server=server_of(endpoint), decode_responses=False, protocol=2
        )
        self._client.response_callbacks.clear()
        self._open = True
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def is_open(self) -> bool:
        return self._open

    def call(self, arguments: Sequence[Argument]) -> asyncio.Future[Any]:
        task = asyncio.ensure_future(self._execute(arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def call_within(self, arguments: Sequence[Argument], timeout: float) -> Any:
        if not self._open:
            raise ConnectionLostError(self._endpoint.shown)
        try:
            return await asyncio.wait_for(self._execute(arguments), timeout if timeout < math.inf else None)
        except TimeoutError as error:
            self.close("no answer in time")
            raise ConnectionLostError(self._endpoint.shown, "no answer in time") from error

    async def _execute(self, arguments: Sequence[Argument]) -> Any:
        import redis.exceptions

        try:
            return await self._client.execute_command(*arguments)  # type: ignore[no-untyped-call]
        except UnicodeEncodeError as error:
            raise EncodeError("a command", str(error)) from error
        except redis.exceptions.RedisError as error:
            raise CommandError(str(error)) from error

    def close(self, reason: str = "closed") -> None:
        self._open = False
        for task in self._tasks:
            task.cancel()
