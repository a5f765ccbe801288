"""The stored states of persistent agents, and bodies too large for a stream: read as a whole, and replaced from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from callboard.broker.envelope import Pointer
from callboard.broker.errors import CommandError, DecodeError, PayloadTooLargeError, StateDamagedError
from callboard.broker.outcome import LogChange

from .connection import Link
from .endpoint import Argument
from .lane import log_values

FIRST_PAGE: Final = 64  # items
LARGEST_PAGE: Final = 1000  # items
PAGE_BYTES: Final = 1_000_000  # about as many in one answer: so that no answer keeps the server busy for long
MOST_READINGS: Final = 100  # of one state that is replaced again and again meanwhile


class StoredState(NamedTuple):
    """A state as it is stored.

    Attributes:
        version: number of commits that it has seen; 0: nothing is stored.
        data: JSON, without the logs; b"": the default.
        logs: by field, the items of each log as JSON, oldest first.
    """

    version: int = 0
    data: bytes = b""
    logs: Mapping[str, Sequence[bytes]] = {}


class StateStore:
    """Reads and replaces states; commits write them otherwise."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def load(self, agent_type: str, key: str) -> StoredState:
        """A state and its logs as one commit left them.

        Raises:
            StateDamagedError: a log is not as long as the state says.
        """
        for _ in range(MOST_READINGS):
            stored = await self._read(agent_type, key)
            if stored is not None:
                return stored
        raise StateDamagedError(f"{agent_type}/{key}", "it was replaced each time while it was read")

    async def _read(self, agent_type: str, key: str) -> StoredState | None:
        """The same; None: it changed meanwhile."""
        state = self._link.keys.of(f"state:{agent_type}:{key}")
        version, data, line = await self._link.command("HMGET", state, "v", "d", "l")
        logs: dict[str, list[bytes]] = {}
        lengths = lengths_of(line)
        for field, length in lengths.items():
            logs[field] = await self._items(f"log:{agent_type}:{key}:{field}", length)
        # guard: a state and its logs are of one version
        if lengths and await self._link.command("HGET", state, "v") != version:
            return None
        for field, length in lengths.items():
            # guard: a log that lost items is not taken for whole
            if len(logs[field]) != length:
                found = f"log:{agent_type}:{key}:{field} has not the {length:,} items that its state says"
                raise StateDamagedError(f"{agent_type}/{key}", found)
        return StoredState(int(version or 0), data or b"", logs)

    async def _items(self, suffix: str, length: int) -> list[bytes]:
        """The items of a log; one more than there should be where it is too long."""
        items: list[bytes] = []
        page = FIRST_PAGE
        while len(items) <= length:
            found = await self._page(suffix, len(items), page)
            items += found
            if len(found) < page:
                break
            average = sum(map(len, found)) // len(found) + 1
            page = max(1, min(LARGEST_PAGE, PAGE_BYTES // average))
        return items

    async def _page(self, suffix: str, start: int, count: int) -> list[bytes]:
        try:
            found: list[bytes] = await self._link.command(
                "LRANGE", self._link.keys.of(suffix), start, start + count - 1
            )
        except CommandError as error:
            agent = suffix.partition(":")[2].rpartition(":")[0].replace(":", "/", 1)
            raise StateDamagedError(agent, f"{suffix}: {error}") from error
        return found

    async def replace(
        self, agent_type: str, key: str, data: bytes, logs: Mapping[str, Sequence[bytes]]
    ) -> int:
        """Replaces a state; workers that have it in memory load it again.

        Returns:
            Its version.
        """
        changes = [LogChange(field, 0, items) for field, items in logs.items()]
        version: int = await self._link.run("restore", (agent_type, key, data, *log_values(changes)))
        return version


def lengths_of(line: bytes | None) -> dict[str, int]:
    """Field -> items, of what a state says of its logs."""
    words = (line or b"").decode().split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


class ClaimStore:
    """Reads blobs; they are written by the scripts, together with the entries that point to them."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def fetch(self, pointer: Pointer) -> bytes:
        """The bytes; waits for the server when it is gone.

        Raises:
            DecodeError: they are not there, or not those that the pointer means.
            PayloadTooLargeError: they are more than `max_claim`.
            ConnectionLostError: the link was closed meanwhile.
        """
        key = self._link.keys.of(pointer.name)
        size = int(await self._ask("HSTRLEN", key, "body"))
        limit = self._link.settings.max_claim
        if size > limit:  # known before anything of it is in this process
            raise PayloadTooLargeError(size, limit, is_claim=True)
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
