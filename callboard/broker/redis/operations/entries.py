"""Reading streams as a person would: entries with their envelope, the newest, or all that come."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callboard.broker.envelope import FIELDS, Envelope, decode, name_of
from callboard.broker.errors import ConnectionLostError, DecodeError, ServerUnavailableError
from callboard.broker.limits import DEFAULT, Limits, unpack
from callboard.broker.redis.client.connection import START, Link, StreamTail
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.keys import TOPIC, topic as topic_suffix

BATCH = 100  # entries in one read
NO_TOPIC_YET = 0.2  # seconds until it is looked again whether there is a topic
LOOK_FOR_TOPICS = 1.0  # seconds that one read of all topics waits: then new ones are looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEntry:
    """One entry of a stream.

    Attributes:
        stream: suffix of the stream, such as `topic:visits`.
        entry: id of the entry.
        envelope: the message; None when its fields can't be read.
        problem: why not, "" when there is an envelope.
        fields: the fields as they are.
    """

    stream: str
    entry: str
    envelope: Envelope | None
    problem: str
    fields: Mapping[str, bytes]

    def payload(self, limits: Limits = DEFAULT) -> Any:
        """The body as plain data, whatever its type is.

        Raises:
            DecodeError: it is neither msgpack nor JSON, or beyond the limits.
        """
        return unpack(self.fields.get("body", b""), limits)


def fields_of(flat: Sequence[bytes]) -> dict[str, bytes]:
    """The fields of an entry as the server gives them: name, value, name, value."""
    return {flat[i].decode(errors="replace"): flat[i + 1] for i in range(0, len(flat) - 1, 2)}


def read_envelope(stream: str, entry: str, fields: Mapping[str, bytes], limits: Limits = DEFAULT) -> Envelope:
    """The envelope of an entry; what a person left out is filled in as the worker does.

    Raises:
        DecodeError: a field can't be read.
    """
    if not fields.get("type"):
        raise DecodeError("the entry has no field `type`")
    filled = {
        "id": name_of(stream.encode(), entry.encode()),
        "key": b"default",
        "at": entry.split("-", 1)[0].encode(),
        **{name: value for name, value in fields.items() if value or name == "key"},
    }
    return decode([filled.get(name, b"") for name in FIELDS], limits)


def read_entry(stream: str, raw: Sequence[Any], limits: Limits = DEFAULT) -> StreamEntry:
    """An entry from the server's answer: id, then its fields."""
    entry, fields = raw[0].decode(), fields_of(raw[1] or ())
    try:
        envelope = read_envelope(stream, entry, fields, limits)
    except DecodeError as error:
        return StreamEntry(stream=stream, entry=entry, envelope=None, problem=str(error), fields=fields)
    return StreamEntry(stream=stream, entry=entry, envelope=envelope, problem="", fields=fields)


async def recent(transport: RedisTransport, stream: str, n: int = 10) -> tuple[StreamEntry, ...]:
    """The newest `n` entries of a stream, oldest of them first.

    Args:
        transport: where.
        stream: suffix, such as `topic:visits`, `inbox:counter` or `events`.
        n: how many at most.
    """
    answer = await transport.admin.command("XREVRANGE", transport.keys.of(stream), "+", "-", "COUNT", n)
    limits = Limits.of(transport.settings)
    return tuple(read_entry(stream, raw, limits) for raw in reversed(answer or []))


async def follow(
    transport: RedisTransport, topics: Collection[str] = (), from_start: bool = False
) -> AsyncGenerator[StreamEntry, None]:
    """Every entry of some topics as it comes, without end. Reads only: no worker gets less for it.

    Args:
        transport: where; the reading has a connection of its own, made again when it breaks.
        topics: topic types; none: all, also those that come up later.
        from_start: begin with what is there already, else with what comes next.
    """
    reader = EntryReader(transport, topics, from_start)
    try:
        await reader.begin()
        while True:
            for entry in await reader.read():
                yield entry
    finally:
        reader.close()


class EntryReader:
    """Reads several streams from remembered ids, so that nothing is missed between two reads.

    What it has not read waits in the streams, and only there.

    Args:
        transport: where; the reading has a connection of its own, made again when it breaks.
        topics: topic types; none: all, also those that come up later.
        from_start: begin with what is there already, else with what comes next.
        is_counting: notice what is trimmed before it is read; costs one more command for each read.

    Attributes:
        has_missed: entries were trimmed, or lost with a server, before they were read here; set back by who has said so.
    """

    def __init__(
        self,
        transport: RedisTransport,
        topics: Collection[str],
        from_start: bool = False,
        *,
        is_counting: bool = False,
    ) -> None:
        self.has_missed = False
        self._is_counting = is_counting
        # Topic -> entries of its stream, from the first it ever had, up to our place.
        self._passed: dict[str, int] = {}
        self._link: Link = transport.link("tail")
        self._tail = StreamTail(self._link, BATCH, block=None if topics else LOOK_FOR_TOPICS)
        self._keys = transport.keys
        self._limits = Limits.of(transport.settings)
        self._chosen = tuple(dict.fromkeys(topics))
        self._from_start = from_start
        self._topics: dict[str, str] = {}  # topic type -> Redis key of its stream

    async def begin(self) -> None:
        """Remembers where the reading begins.

        Raises:
            ServerUnavailableError: the server can't be reached.
        """
        for topic in self._chosen or await self._known_topics():
            key = self._key_of(topic)
            self._tail.places[key] = START if self._from_start else await self._tail.last_id(key)
            if self._is_counting:
                added, kept = await self._size(topic)
                self._passed[topic] = added - kept if self._from_start else added

    async def read(self) -> list[StreamEntry]:
        """The entries that came; after some seconds without anything, an empty list.

        Raises:
            ConnectionLostError: it was closed.
        """
        try:
            if self._tail.in_doubt:
                await self._find_places()
            if not self._chosen:
                await self._look_for_topics()
            await self._look_for_gaps()
            return await self._read()
        except (ConnectionLostError, ServerUnavailableError):
            if self._link.is_closed:
                raise
            with contextlib.suppress(ServerUnavailableError):
                await self._tail.was_lost(self._link.settings.socket_timeout)
            return []

    def _key_of(self, topic: str) -> str:
        """The key of a topic's stream, which is read from now on."""
        return self._topics.setdefault(topic, self._keys.of(topic_suffix(topic)))

    async def newest(self, count: int, keep: Callable[[StreamEntry], bool]) -> list[StreamEntry]:
        """The newest entries of its topics that are there already, of those that are wanted; the oldest first.

        Args:
            count: how many at most.
            keep: whether an entry is wanted.
        """
        found = [entry for topic in self._topics for entry in await self._newest(topic, count, keep)]
        found.sort(key=lambda entry: _order(entry.entry))
        return found[-count:] if count else []

    async def _newest(self, topic: str, count: int, keep: Callable[[StreamEntry], bool]) -> list[StreamEntry]:
        name, key, found = topic_suffix(topic), self._topics[topic], list[StreamEntry]()
        last: bytes | str = self._tail.places[key]
        while len(found) < count:
            listed = await self._link.command("XREVRANGE", key, last, "-", "COUNT", BATCH)
            entries = [read_entry(name, raw, self._limits) for raw in listed]
            found += filter(keep, entries)
            if len(listed) < BATCH:
                break
            last = f"({entries[-1].entry}"
        return found[:count]

    async def _read(self) -> list[StreamEntry]:
        if not self._topics:
            await asyncio.sleep(NO_TOPIC_YET)
            return []
        entries = [self._take(name, raw) for name, listed in await self._tail.read() for raw in listed]
        # Ids compare across the streams of a namespace: this is the order of publishing.
        return sorted(entries, key=lambda entry: _order(entry.entry))

    def _take(self, name: bytes, raw: Sequence[Any]) -> StreamEntry:
        key = name.decode()
        suffix = key.removeprefix(self._keys.prefix)
        topic = suffix.removeprefix(TOPIC)
        self._tail.places[key] = raw[0]
        if topic in self._passed:
            self._passed[topic] += 1
        return read_entry(suffix, raw, self._limits)

    async def _look_for_gaps(self) -> None:
        """A stream loses its oldest entries: if it has lost more than were read here, some were not."""
        for topic, passed in self._passed.items():
            added, kept = await self._size(topic)
            if added - kept > passed:
                self._passed[topic], self.has_missed = added - kept, True

    async def _size(self, topic: str) -> tuple[int, int]:
        """How many entries a topic's stream was ever given, and how many it has."""
        key = self._key_of(topic)
        if not await self._link.command("EXISTS", key):
            return 0, 0
        flat = await self._link.command("XINFO", "STREAM", key)
        found = dict(zip(flat[::2], flat[1::2], strict=True))
        return int(found[b"entries-added"]), int(found[b"length"])

    async def _find_places(self) -> None:
        """A server that lost a tail may give ids below those that are remembered, which would never be read.

        Then it goes on behind what is there now: most of it was read already.
        """
        for topic, key in list(self._topics.items()):
            newest = await self._tail.last_id(key)
            if _order(newest.decode()) < _order(self._tail.places[key].decode()):
                self._tail.places[key], self.has_missed = newest, True
                if topic in self._passed:
                    self._passed[topic], _ = await self._size(topic)
        self._tail.in_doubt = False

    async def _known_topics(self) -> list[str]:
        names = await self._link.command("HKEYS", self._keys.of("topics"))
        return sorted(name.decode(errors="replace") for name in names)

    async def _look_for_topics(self) -> None:
        for topic in await self._known_topics():
            self._tail.places.setdefault(self._key_of(topic), START)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._link.is_closed

    def close(self) -> None:
        """Ends its connection, and a reading that is under way."""
        self._link.close()


def _order(entry: str) -> tuple[int, int]:
    ms, _, number = entry.partition("-")
    return int(ms), int(number)
