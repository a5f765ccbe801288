"""What stands behind `ctx.once`: results of outside effects, recorded before they are used.

Temporal and Restate call it a journal. An effect that was made but whose result could not be recorded (the process died
in between) is made again: give it `ctx.message_id` as its own idempotency key where that matters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgpack

from broker import MessageRegistry
from broker.redis.transport import RedisTransport


class Recorder:
    """The recorded results of one message at one agent.

    Attributes:
        used: whether anything was recorded or looked up, so that the commit has to clear it away.
    """

    def __init__(
        self, transport: RedisTransport, registry: MessageRegistry, agent_type: str, message_id: str
    ) -> None:
        self._transport = transport
        self._registry = registry
        self._agent_type = agent_type
        self._message_id = message_id
        self._recorded: dict[str, bytes] | None = None
        self._running: dict[str, asyncio.Future[Any]] = {}
        self.used = False

    async def __call__(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """The recorded result of `name`, else that of `call()`, recorded first. A failure is not recorded."""
        running = self._running.get(name)
        if running is None:
            running = self._running[name] = asyncio.ensure_future(self._run(name, call))
            running.add_done_callback(lambda _: self._running.pop(name, None))
        return await running

    async def _run(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        self.used = True
        if self._recorded is None:
            self._recorded = await self._transport.recorded(self._agent_type, self._message_id)
        if name in self._recorded:
            return self._decode(self._recorded[name])
        result = await call()
        data = self._encode(result)
        await self._transport.record(self._agent_type, self._message_id, name, data)
        self._recorded[name] = data
        return result

    def _encode(self, result: Any) -> bytes:
        entry = self._registry.entry_for(result)
        packed: bytes = msgpack.packb([entry.name, entry.version, entry.encode(result)])
        return packed

    def _decode(self, data: bytes) -> Any:
        name, version, body = msgpack.unpackb(data)
        return self._registry.decode(name, version, body)
