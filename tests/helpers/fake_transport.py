"""A transport without a server: it remembers what it is told, and answers what a test sets."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from callboard.broker import BrokerSettings
from callboard.broker.envelope import Envelope, Fence, Posting
from callboard.broker.errors import FencedError
from callboard.broker.redis.client.states import StoredState
from callboard.broker.redis.keys import Keys

NOW: Final = 1_763_700_000_000


class FakeTransport:
    """Keeps what was handed in; answers are set by the test.

    Attributes:
        posted: every message that was handed in.
        asked: one future for each request; the test sets its reply.
        forgotten: ids of requests for whose replies no caller waits any more.
        orders: arguments of every order; each is obeyed when `obeys` is set, unless `error` is.
        records: results of `ctx.once` by name; `reads` says for which agent type and message they were read.
        is_down: recording fails.
        is_fenced: another worker has the message that is handled; `fences` are those that were named.
        stored: the State of any agent; `loads` counts how often it was read.
    """

    process = "host:1:abc"

    def __init__(self, max_payload: int = 1000) -> None:
        self.keys = Keys("test")
        self.settings = BrokerSettings(max_payload=max_payload, request_timeout=5)
        self.publisher = self.requests = self
        self.posted: list[Posting] = []
        self.asked: list[asyncio.Future[Envelope]] = []
        self.forgotten: list[str] = []
        self.orders: list[tuple[Any, ...]] = []
        self.obeys = asyncio.Event()
        self.error: Exception | None = None
        self.records: dict[str, bytes] = {}
        self.reads: list[tuple[str, str]] = []
        self.is_down = self.is_fenced = False
        self.fences: list[Fence | None] = []
        self.stored = StoredState()
        self.loads = 0

    def now_ms(self) -> int:
        return NOW

    # Sending

    def post(self, posting: Posting) -> asyncio.Future[bool]:
        self.posted.append(posting)
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        future.set_result(True)
        return future

    def ask(self, posting: Posting) -> asyncio.Future[Envelope]:
        self.posted.append(posting)
        self.asked.append(asyncio.get_running_loop().create_future())
        return self.asked[-1]

    def forget(self, request_id: str, waiting: asyncio.Future[Envelope]) -> None:
        self.forgotten.append(request_id)

    async def order(self, *arguments: Any) -> bool:
        self.orders.append(arguments)
        await self.obeys.wait()
        if self.error is not None:
            raise self.error
        return True

    # Handling

    async def recorded(
        self, fence: Fence | None, agent_type: str, message_id: str, name: str
    ) -> bytes | None:
        self.reads.append((agent_type, message_id))
        self._check(fence)
        return self.records.get(name)

    async def record(
        self, fence: Fence | None, agent_type: str, message_id: str, name: str, result: bytes
    ) -> bytes:
        self._check(fence)
        if self.is_down:
            raise ConnectionError("down")
        return self.records.setdefault(name, result)

    def _check(self, fence: Fence | None) -> None:
        self.fences.append(fence)
        if self.is_fenced and fence is not None:
            raise FencedError(fence.worker)

    async def load_state(self, agent_type: str, key: str) -> StoredState:
        self.loads += 1
        return self.stored

    await_state = load_state
