"""A transport without a server: it remembers what it is told, and answers what a test sets."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from callboard.broker import BrokerSettings
from callboard.broker.envelope import Envelope, Posting

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
        stored: version and bytes of the State of any agent; `loads` counts how often it was read.
    """

    process = "host:1:abc"

    def __init__(self, max_payload: int = 1000) -> None:
        self.settings = BrokerSettings(max_payload=max_payload, request_timeout=5)
        self.publisher = self
        self.posted: list[Posting] = []
        self.asked: list[asyncio.Future[Envelope]] = []
        self.forgotten: list[str] = []
        self.orders: list[tuple[Any, ...]] = []
        self.obeys = asyncio.Event()
        self.error: Exception | None = None
        self.records: dict[str, bytes] = {}
        self.reads: list[tuple[str, str]] = []
        self.is_down = False
        self.stored: tuple[int, bytes] = (0, b"")
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

    async def recorded(self, agent_type: str, message_id: str) -> dict[str, bytes]:
        self.reads.append((agent_type, message_id))
        return dict(self.records)

    async def record(self, agent_type: str, message_id: str, name: str, result: bytes) -> bytes:
        if self.is_down:
            raise ConnectionError("down")
        return self.records.setdefault(name, result)

    async def load_state(self, agent_type: str, key: str) -> tuple[int, bytes]:
        self.loads += 1
        return self.stored
