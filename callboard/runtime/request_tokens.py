"""The tokens of the requests that this process has sent, and what the server is told when one is cancelled."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from callboard.broker.redis.client.transport import RedisTransport
from callboard.cancellation import CancellationToken

logger = logging.getLogger("callboard.actors")

REMEMBERED: Final = 60_000  # ms beyond its deadline for which a request stays cancelled
PATIENCE: Final = 1.0  # seconds that a cancelled caller waits until the server knows of it


class RequestTokens:
    """The tokens by the ids of the requests."""

    def __init__(self, transport: RedisTransport) -> None:
        self._transport = transport
        self._tokens: dict[str, list[CancellationToken]] = {}
        self._orders: set[asyncio.Future[bool]] = set()

    def of(self, request_id: str) -> CancellationToken | None:
        """The token of a request; of one that was sent more than once, the first."""
        tokens = self._tokens.get(request_id)
        return tokens[0] if tokens else None

    def add(self, request_id: str, token: CancellationToken) -> None:
        """A request is sent with this token."""
        self._tokens.setdefault(request_id, []).append(token)

    def remove(self, request_id: str, token: CancellationToken) -> None:
        """Nobody waits for that request any more."""
        tokens = self._tokens[request_id]
        tokens.remove(token)
        if not tokens:
            del self._tokens[request_id]

    async def cancel_there(self, request_id: str, deadline: int) -> None:
        """Once the caller learns that its request is cancelled, nothing of it is committed any more.

        When the server can't be told, the request may still be carried out, as after a timeout.

        Args:
            request_id: The request.
            deadline: Until when its caller would have waited, server ms.
        """
        order = asyncio.ensure_future(self._transport.order("cancel", request_id, deadline + REMEMBERED))
        self._orders.add(order)
        order.add_done_callback(self._told)
        await asyncio.wait({order}, timeout=PATIENCE)

    def _told(self, order: asyncio.Future[bool]) -> None:
        self._orders.discard(order)
        if not order.cancelled() and (error := order.exception()) is not None:
            logger.warning("the server could not be told that a request is cancelled: %s", error)
