"""The stand-in server of memory:// URLs: fakeredis, inside this process, for tests without files and ports.

Everything with one name shares one store for as long as the process lives. Blocking reads are answered by fakeredis.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

from callboard.broker.errors import CommandError, ConnectionLostError, EncodeError
from callboard.foundation.errors import MissingPackageError

from .endpoint import Argument, Endpoint

_servers: dict[str, Any] = {}


def server_of(endpoint: Endpoint) -> Any:
    """The store of a name, made when first asked for."""
    try:
        import fakeredis
    except ImportError as error:
        raise MissingPackageError("fakeredis", "testing") from error
    return _servers.setdefault(endpoint.host, fakeredis.FakeServer(version=(7, 0)))


class MemoryChannel:
    """A Channel on a store in this process."""

    def __init__(self, endpoint: Endpoint) -> None:
        store = server_of(endpoint)
        import fakeredis

        self._endpoint = endpoint
        self._client = fakeredis.FakeAsyncRedis(server=store, decode_responses=False, protocol=2)
        self._client.response_callbacks.clear()
        self._closed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        return not self._closed.done()

    @property
    def is_waiting(self) -> bool:
        return True  # there is no network that could have lost it

    async def call_within(self, arguments: Sequence[Argument], timeout: float) -> Any:
        if self._closed.done():
            raise ConnectionLostError(self._endpoint.shown, self._closed.result())
        call = asyncio.ensure_future(self._execute(arguments))
        try:
            # Not wait_for: a blocking read of fakeredis does not always end when it is cancelled.
            await asyncio.wait(
                (call, self._closed),
                timeout=timeout if timeout < math.inf else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if call.done():
                return call.result()
            self.close(f"no answer within {timeout:g} s")
            raise ConnectionLostError(self._endpoint.shown, self._closed.result())
        finally:
            call.cancel()

    async def _execute(self, arguments: Sequence[Argument]) -> Any:
        import redis.exceptions

        try:
            return await self._client.execute_command(*arguments)  # type: ignore[no-untyped-call]
        except UnicodeEncodeError as error:
            raise EncodeError("a command", str(error)) from error
        except redis.exceptions.RedisError as error:
            raise CommandError(str(error)) from error

    def close(self, reason: str = "closed") -> None:
        if not self._closed.done():
            self._closed.set_result(reason)


class BlockingMemory:
    """The same for a thread, as `blocking.BlockingWire` is for servers."""

    def __init__(self, endpoint: Endpoint) -> None:
        store = server_of(endpoint)
        import fakeredis

        self._client = fakeredis.FakeRedis(server=store, protocol=2)
        self._client.response_callbacks.clear()  # answers are the server's own, as of any other connection

    def call(self, arguments: Sequence[Argument]) -> Any:
        """The answer to one command."""
        import redis.exceptions

        try:
            return self._client.execute_command(*arguments)  # type: ignore[no-untyped-call]
        except redis.exceptions.RedisError as error:
            raise CommandError(str(error)) from error

    def close(self) -> None:
        """Ends the connection; the store stays."""
        self._client.close()
