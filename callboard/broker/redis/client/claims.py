"""Fetching the bytes that lie beside a stream, over a connection of their own: ordinary calls do not wait for them."""

from __future__ import annotations

from typing import Any

from callboard.broker.encoding.claims import Pointer
from callboard.broker.errors import ClaimTooLargeError, DecodeError

from .connection import Link
from .endpoint import Argument


class ClaimStore:
    """Reads blobs; they are written by the scripts, together with the entries that point to them."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def fetch(self, pointer: Pointer) -> bytes:
        """The bytes; waits for the server when it is gone.

        Raises:
            DecodeError: they are not there, or not those that the pointer means.
            ClaimTooLargeError: they are more than `max_claim`.
            ConnectionLostError: the link was closed meanwhile.
        """
        key = self._link.keys.of(pointer.name)
        size = int(await self._ask("HSTRLEN", key, "body"))
        limit = self._link.settings.max_claim
        if size > limit:  # known before anything of it is in this process
            raise ClaimTooLargeError(size, limit)
        body: bytes | None = await self._ask("HGET", key, "body") if size == pointer.size else None
        if body is None:
            raise DecodeError(
                f"the {pointer.size:,} bytes of the message are not in {pointer.name} any more: they were deleted by "
                "hand, or all who subscribed then had handled it; publish the message again"
            )
        return body

    async def _ask(self, *arguments: Argument) -> Any:
        return await self._link.patiently(lambda: self._link.command(*arguments))

    async def drop(self, pointer: Pointer) -> None:
        """Deletes the bytes of a reply that was read."""
        await self._ask("UNLINK", self._link.keys.of(pointer.name))

    def close(self) -> None:
        self._link.close()
