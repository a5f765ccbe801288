"""Reading the stream of a run from a number on, so that a reconnect misses nothing and repeats nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from callboard.broker.errors import CommandError, ConnectionLostError, ServerUnavailableError
from callboard.broker.redis.keys import run as run_suffix

from .connection import Link, StreamTail

BATCH: Final = 1000  # entries in one read
LOOK_AGAIN: Final = 0.25  # seconds between two looks at a stream to which a person added something
OWN: Final = b"0-"  # ids of events begin with it
NO_KEY: Final = "no such key"
MOST_DIGITS: Final = 14  # of a time or a version: no clock says, and no message class has, a longer one


class RunRecord(NamedTuple):
    """One entry of the stream of a run, as it stands there.

    Attributes:
        number: of the entry: they rise, one by one.
        at: when it was written, server ms.
        type, version, body: the event.
        tag: of a draft; "" when it is none.
    """

    number: int
    at: int
    type: str
    version: int
    body: bytes
    tag: str


class RunReader:
    """Reads one run.

    A server that lost a tail of its data forgets the last entries, and gives their numbers again: then it goes on with
    what was written since, so a number that is not above the one before says that what was read from it on did not
    happen. The same holds for a run that was deleted and begun again.

    Args:
        link: a connection of its own.
        run: id of the run.
        after: the number of the last entry that is known already; 0: none.
    """

    def __init__(self, link: Link, run: str, after: int = 0) -> None:
        self._link = link
        self._key = link.keys.of(run_suffix(run))
        self._tail = StreamTail(link, BATCH)
        self._at = 0
        self._go_to(after)
        self._tail.in_doubt = after > 0

    def _go_to(self, number: int) -> None:
        self._last = number
        self._tail.places[self._key] = b"0-%d" % number

    async def read(self, wait: bool) -> list[RunRecord] | None:
        """The entries that come next.

        Args:
            wait: wait until there are some, for a while: then the list may be empty.

        Returns:
            None when there are none and `wait` is false.

        Raises:
            ConnectionLostError: it was closed.
            ServerUnavailableError: `wait` is false, and no server answered within `socket_timeout`.
            CommandError: the key holds no stream.
        """
        try:
            if self._tail.in_doubt:
                await self._find_place()
            answer = await self._tail.read(wait)
        except (ConnectionLostError, ServerUnavailableError):
            if self._link.is_closed:
                raise
            await self._reconnect(wait)
            return []
        if not answer:
            self._tail.in_doubt = wait
            return [] if wait else None
        # What a person added has another kind of id, and no place among the numbers of events.
        records = [record_of(raw) for raw in answer[0][1] if raw[0].startswith(OWN)]
        if not records:
            return await self._wait_for_writer(wait)
        self._go_to(records[-1].number)
        self._at = records[-1].at
        return records

    async def _wait_for_writer(self, wait: bool) -> list[RunRecord] | None:
        """Waits: the next entry was added by hand, with an id that no event has. It goes when the next event is written."""
        if not wait:
            return None
        await asyncio.sleep(LOOK_AGAIN)
        return []

    async def _reconnect(self, wait: bool) -> None:
        try:
            await self._tail.was_lost(self._link.settings.socket_timeout)
        except ServerUnavailableError:
            if not wait or self._link.is_closed:
                raise

    async def _find_place(self) -> None:
        """Goes back where the entry that was read last is not the one that stands there now."""
        if await self._newest() < self._last or await self._is_another():
            self._go_to(await self._last_known())
        self._tail.in_doubt = False

    async def _newest(self) -> int:
        """The last number that was given; drafts that are gone count."""
        try:
            flat = await self._link.command("XINFO", "STREAM", self._key)
        except CommandError as error:
            if NO_KEY not in str(error):
                raise
            return 0
        newest: bytes = dict(zip(flat[::2], flat[1::2], strict=True))[b"last-generated-id"]
        # One that was added by hand hides it: nothing says that entries are missing.
        return _number(newest) if newest.startswith(OWN) else self._last

    async def _is_another(self) -> bool:
        place = f"0-{self._last}"
        found = await self._link.command("XRANGE", self._key, place, place)
        return bool(found) and self._at > 0 and record_of(found[0]).at != self._at

    async def _last_known(self) -> int:
        """The newest number that was not written after the entry that was read last."""
        end = "+"
        while True:
            page = await self._link.command("XREVRANGE", self._key, end, "-", "COUNT", BATCH)
            for record in (record_of(raw) for raw in page if raw[0].startswith(OWN)):
                if record.at <= self._at:
                    return record.number
            if len(page) < BATCH:
                return 0
            end = f"({page[-1][0].decode()}"

    def close(self) -> None:
        """Ends its connection, and a reading that is under way."""
        self._link.close()


NAMES: Final = (b"at", b"type", b"v", b"body", b"tag")
USUAL: Final = [*NAMES[:4]]  # the fields of an event that is no draft


def record_of(raw: Sequence[Any]) -> RunRecord:
    """An entry as the server gives it."""
    entry, flat = raw
    tag = b""
    if flat[::2] == USUAL:
        at, kind, version, body = flat[1::2]
    else:
        fields: Mapping[bytes, bytes] = dict(zip(flat[::2], flat[1::2], strict=True))
        at, kind, version, body, tag = (fields.get(name, b"") for name in NAMES)
    return RunRecord(
        _number(entry),
        _digits(at),
        kind.decode("utf-8", "replace"),
        _digits(version),
        body,
        tag.decode("utf-8", "replace"),
    )


def _digits(value: bytes) -> int:
    return int(value) if value.isdigit() and len(value) <= MOST_DIGITS else 0


def _number(entry_id: bytes) -> int:
    return int(entry_id[entry_id.index(b"-") + 1 :])
