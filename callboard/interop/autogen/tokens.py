"""AutoGen's cancellation tokens in several processes: each that travels has a name, and cancelling it is told to all.

In AutoGen the object itself goes from handler to handler. Here a message carries the name of its token; a process that has
the token uses that object, any other makes one of its own, which is cancelled when the first is.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from callboard.broker.ids import IdSource

from .real import core

PREFIX: Final = "token:"
KEPT: Final = 1_000  # tokens that are kept although nobody holds them: their next message is on its way


class Tokens:
    """The tokens of one process.

    Args:
        tell: tells all processes that a token is cancelled.
        ask: whether a token was cancelled before this process knew of it.
    """

    def __init__(
        self, tell: Callable[[str], Awaitable[object]], ask: Callable[[str], Awaitable[bool]]
    ) -> None:
        self._tell = tell
        self._ask = ask
        self._ids = IdSource()
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._by_name: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        self._recent: OrderedDict[str, Any] = OrderedDict()
        self._heard: set[str] = set()
        self._telling: set[asyncio.Future[object]] = set()

    def name_of(self, token: Any | None) -> str | None:
        """The name under which a token travels; None for no token."""
        if token is None:
            return None
        name = self._names.get(token)
        return self._add(token, PREFIX + self._ids.next()) if name is None else name

    async def named(self, name: str | None) -> Any:
        """The token of a message; without a name a new one, as AutoGen's runtime makes it."""
        if name is None:
            return core.CancellationToken()
        token = self._by_name.get(name)
        if token is None:
            is_cancelled = await self._ask(name)
            # Another message with this token may have come meanwhile.
            token = self._by_name.get(name)
            if token is None:
                token = core.CancellationToken()
                self._add(token, name)
                if is_cancelled:
                    self.hear(name)
        return token

    def hear(self, name: str) -> None:
        """A token was cancelled, here or in another process."""
        token = self._by_name.get(name)
        if token is not None and not token.is_cancelled():
            self._heard.add(name)
            token.cancel()

    async def close(self) -> None:
        """Waits until what was cancelled here has been told."""
        if self._telling:
            await asyncio.wait(self._telling)

    def _add(self, token: Any, name: str) -> str:
        self._names[token] = name
        self._by_name[name] = token
        self._recent[name] = token
        if len(self._recent) > KEPT:
            self._recent.popitem(last=False)
        # AutoGen calls callbacks inside of the token's lock, in whatever thread cancels: this one only passes it on.
        loop = asyncio.get_running_loop()
        token.add_callback(partial(_pass_on, loop, self._cancelled, name))
        return name

    def _cancelled(self, name: str) -> None:
        if name in self._heard:
            self._heard.discard(name)
            return
        telling = asyncio.ensure_future(self._tell(name))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)


def _pass_on(loop: asyncio.AbstractEventLoop, call: Callable[[str], None], name: str) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call, name)
