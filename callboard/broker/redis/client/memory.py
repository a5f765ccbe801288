"""The stand-in server of memory:// URLs: fakeredis, inside this process, for tests without files and ports.

Everything with one name shares one store for as long as the process lives, over all its event loops. Blocking reads wait
here: those of fakeredis do not always end when they are cancelled, and then keep their event loop from closing.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from callboard.broker.errors import BrokerError, CommandError, ConnectionLostError, EncodeError
from callboard.foundation import MissingPackageError

from .endpoint import Argument, Endpoint
from .wire import Beginning

_servers: dict[str, Any] = {}


def server_of(endpoint: Endpoint) -> Any:
    """The store of a name, made when first asked for."""
    try:
        import fakeredis
    except ModuleNotFoundError:
        raise MissingPackageError("fakeredis", "testing") from None
    return _servers.get(endpoint.host) or _servers.setdefault(endpoint.host, _new_server(fakeredis))


def _new_server(fakeredis: Any) -> Any:
    server = fakeredis.FakeServer(version=(7, 0))
    database = _database_class(type(server.dbs[0]))
    server.dbs = defaultdict(lambda: database(server.lock))
    server._lua_functions = _functions_of(server)
    return server


def _functions_of(server: Any) -> Any:
    """Runner of the functions of a store, as fakeredis has it, except that Lua gets the texts of errors as bytes.

    lupa keeps texts of Python for Lua in a table with weak values, and now and then one comes out as another
    (https://github.com/scoder/lupa/issues/293): then a function takes one error for another.
    """
    from fakeredis._helpers import SimpleError
    from fakeredis.commands_mixins import _lua_functions, scripting_mixin as theirs

    class Functions(_lua_functions.FunctionsEngine):
        def _redis_pcall(self, *args: Any) -> Any:
            try:
                return self._redis_call(*args)
            except SimpleError as error:
                return self.runtime.table_from({b"err": error.value.encode()})

    given = (
        theirs._lua_redis_log,
        theirs._lua_cjson_encode,
        theirs._lua_cjson_decode,
        theirs._lua_cjson_null,
    )
    return Functions(theirs.LUA_MODULE, server.server_type, server.version, *given)


def _database_class(base: Any) -> Any:
    """A database of fakeredis, except that it forgets who waits in an event loop that has been closed.

    A read that was under way there is never taken back, and without this every later write would fail to wake it.
    """

    class Database(base):  # type: ignore[misc]
        def __init__(self, lock: Any) -> None:
            super().__init__(lock)
            self._to_wake: dict[Callable[[], None], asyncio.AbstractEventLoop] = {}

        def add_change_callback(self, callback: Callable[[], None]) -> None:
            self._to_wake[callback] = asyncio.get_running_loop()

        def remove_change_callback(self, callback: Callable[[], None]) -> None:
            self._to_wake.pop(callback, None)

        def wake_all(self) -> None:
            super().wake_all()
            for callback, loop in list(self._to_wake.items()):
                try:
                    callback()
                except RuntimeError:
                    # Asked afterwards: another thread may close the loop between a question and the call.
                    if not loop.is_closed():
                        raise
                    self._to_wake.pop(callback, None)

    return Database


class MemoryChannel:
    """A Channel on a store in this process."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._database = server_of(endpoint).dbs[0]
        self._client = BlockingMemory(endpoint)
        self._closed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        return not self._closed.done()

    @property
    def is_waiting(self) -> bool:
        return True  # there is no network that could have lost it

    async def call_within(
        self, arguments: Sequence[Argument], timeout: float, beginning: Beginning | None = None
    ) -> Any:
        if beginning is not None:
            arguments = (*beginning.words, *arguments)
        await asyncio.sleep(0)  # as with a server, a caller in a loop lets others run
        self._check_open()
        patience = _patience(arguments)
        if patience is None:
            return self._client.call(arguments)
        return await self._when_there(_without_waiting(arguments), patience, timeout)

    async def call_both(
        self, first: Beginning, beginning: Beginning, arguments: Sequence[Argument], timeout: float
    ) -> list[Any]:
        """One after the other; both answers, errors included."""
        answers: list[Any] = []
        for command in (first.words, (*beginning.words, *arguments)):
            try:
                answers.append(await self.call_within(command, timeout))
            except BrokerError as error:
                answers.append(error)
        return answers

    async def _when_there(
        self, attempts: Sequence[Sequence[Argument]], patience: float, timeout: float
    ) -> Any:
        """The first answer that is not empty, tried again after every change of the store."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()
        deadline = loop.time() + min(patience, timeout)

        def wake() -> None:
            loop.call_soon_threadsafe(changed.set)

        self._database.add_change_callback(wake)
        try:
            while True:
                changed.clear()
                for attempt in attempts:
                    if answer := self._client.call(attempt):
                        return answer if attempt[0] == "XREAD" else [_bytes_of(attempt[1]), answer]
                if loop.time() >= deadline:
                    break
                await self._either(changed, deadline - loop.time())
                self._check_open()
        finally:
            self._database.remove_change_callback(wake)
        if timeout < patience:
            self.close(f"no answer within {timeout:g} s")
            self._check_open()
        return None

    async def _either(self, changed: asyncio.Event, seconds: float) -> None:
        waiting = asyncio.ensure_future(changed.wait())
        try:
            await asyncio.wait(
                (waiting, self._closed),
                timeout=seconds if seconds < math.inf else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            waiting.cancel()

    def _check_open(self) -> None:
        if self._closed.done():
            raise ConnectionLostError(self.endpoint.shown, self._closed.result())

    def close(self, reason: str = "closed") -> None:
        if not self._closed.done():
            self._closed.set_result(reason)


def _patience(arguments: Sequence[Argument]) -> float | None:
    """How long a command waits for something to come, seconds; None: it does not wait."""
    if arguments[0] == "BLPOP":
        return float(arguments[-1]) or math.inf
    if arguments[0] == "XREAD" and "BLOCK" in arguments:
        return float(arguments[arguments.index("BLOCK") + 1]) / 1000 or math.inf
    return None


def _without_waiting(arguments: Sequence[Argument]) -> Sequence[Sequence[Argument]]:
    """Commands that ask for the same and do not wait; the first answer that is not empty counts."""
    if arguments[0] == "BLPOP":
        # Not LMPOP: fakeredis keeps the list that it empties, and then can't delete it.
        return [("LPOP", key) for key in arguments[1:-1]]
    at = arguments.index("BLOCK")
    return [(*arguments[:at], *arguments[at + 2 :])]


def _bytes_of(key: Argument) -> bytes:
    return key if isinstance(key, bytes) else str(key).encode()


class BlockingMemory:
    """The same for a thread, as `blocking.BlockingWire` is for servers."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        store = server_of(endpoint)
        import fakeredis

        self._client = fakeredis.FakeRedis(server=store, protocol=2)
        self._client.response_callbacks.clear()  # answers are the server's own, as of any other connection

    def call(self, arguments: Sequence[Argument]) -> Any:
        """The answer to one command."""
        import redis.exceptions

        try:
            return self._client.execute_command(*arguments)  # type: ignore[no-untyped-call]
        except UnicodeEncodeError as error:
            raise EncodeError("a command", str(error)) from error
        except redis.exceptions.RedisError as error:
            raise CommandError(str(error)) from error

    def close(self) -> None:
        """Ends the connection; the store stays."""
        self._client.close()
