"""The real scripts, called one at a time without an event loop: what the model is compared with.

Workers' turns go through the real `WorkerLane`, so that its arguments and answers are part of what is checked.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from callboard.broker import BrokerSettings
from callboard.broker.envelope import Posting
from callboard.broker.errors import CommandError
from callboard.broker.mailbox import Incarnation
from callboard.broker.redis.client.blocking import BlockingConnection, connect
from callboard.broker.redis.client.connection import Link
from callboard.broker.redis.client.endpoint import Endpoint
from callboard.broker.redis.client.lane import WorkerLane
from callboard.broker.redis.client.publisher import limits_of, message_values
from callboard.broker.redis.keys import Keys
from callboard.broker.redis.library import is_missing, is_there_already, library
from tests.helpers.tails import keeping, putting_back

T = TypeVar("T")
LEASE = 86_400.0  # seconds: a lease ends when the test says so

# Every key of the namespace: suffix, kind, content. A stream comes with the groups' names, last ids and pending ids.
PHOTO = """
local P, out = ARGV[1], {}
for _, name in ipairs(redis.call('KEYS', ARGV[2])) do
  local kind = redis.call('TYPE', name)
  kind = type(kind) == 'table' and kind.ok or kind
  local content = {}
  if kind == 'string' then content = redis.call('GET', name)
  elseif kind == 'hash' then content = redis.call('HGETALL', name)
  elseif kind == 'list' then content = redis.call('LRANGE', name, 0, -1)
  elseif kind == 'set' then content = redis.call('SMEMBERS', name)
  elseif kind == 'zset' then content = redis.call('ZRANGE', name, 0, -1)
  elseif string.sub(name, #P + 1) ~= 'events' then
    local groups = {}
    for _, found in ipairs(redis.call('XINFO', 'GROUPS', name)) do
      local group = {}
      for i = 1, #found, 2 do group[found[i]] = found[i + 1] end
      local pending = {}
      for i, one in ipairs(redis.call('XPENDING', name, group.name, '-', '+', 500)) do pending[i] = {one[1], one[2]} end
      groups[#groups + 1] = {group.name, group['last-delivered-id'], pending}
    end
    content = {redis.call('XRANGE', name, '-', '+'), groups}
  end
  out[#out + 1] = {string.sub(name, #P + 1), kind, content}
end
return out
"""


class Group(NamedTuple):
    """A consumer group: the last id that it was given, and who was given what is pending."""

    cursor: str
    pending: dict[str, str]


class Stream(NamedTuple):
    """Entries by id, and groups by name."""

    entries: dict[str, dict[str, bytes]]
    groups: dict[str, Group]


class Photo:
    """Every key of a namespace at one moment, by suffix."""

    def __init__(self, raw: Sequence[Sequence[Any]]) -> None:
        self.hashes: dict[str, dict[str, bytes]] = {}
        self.lists: dict[str, list[str]] = {}
        self.sets: dict[str, set[str]] = {}
        self.strings: dict[str, str] = {}
        self.streams: dict[str, Stream] = {}
        for suffix, kind, content in raw:
            self._add(suffix.decode(), kind, content)

    def _add(self, suffix: str, kind: bytes | str, content: Any) -> None:
        match kind if isinstance(kind, str) else kind.decode():
            case "hash":
                self.hashes[suffix] = {content[i].decode(): content[i + 1] for i in range(0, len(content), 2)}
            case "list":
                self.lists[suffix] = [one.decode() for one in content]
            case "set" | "zset":
                self.sets[suffix] = {one.decode() for one in content}
            case "string":
                self.strings[suffix] = content.decode()
            case _ if content:
                self.streams[suffix] = _stream(*content)

    def hash(self, suffix: str) -> dict[str, str]:
        """A hash as text; empty when it is not there."""
        return {name: value.decode() for name, value in self.hashes.get(suffix, {}).items()}

    def entries(self, suffix: str) -> list[dict[str, bytes]]:
        """The entries of a stream in order; none when it is not there."""
        stream = self.streams.get(suffix)
        return list(stream.entries.values()) if stream else []

    def starting_with(self, prefix: str) -> dict[str, dict[str, bytes]]:
        """Hashes whose suffix begins with `prefix`, by what follows it."""
        return {name[len(prefix) :]: value for name, value in self.hashes.items() if name.startswith(prefix)}


def _stream(entries: Any, groups: Any) -> Stream:
    return Stream(
        {
            entry_id.decode(): {fields[i].decode(): fields[i + 1] for i in range(0, len(fields), 2)}
            for entry_id, fields in entries
        },
        {
            name.decode(): Group(
                last.decode(), {entry_id.decode(): consumer.decode() for entry_id, consumer in pending}
            )
            for name, last, pending in groups
        },
    )


class Bus:
    """One namespace on a server, one call after another.

    Args:
        url: of the server.
        namespace: default a new one.
    """

    def __init__(self, url: str, namespace: str = "") -> None:
        self.settings = BrokerSettings(namespace=namespace or f"model-{os.urandom(4).hex()}", lease=LEASE)
        self.endpoint = Endpoint.parse(url)
        self.keys = Keys(str(self.settings.namespace))
        self.wire: BlockingConnection = connect(self.endpoint, 30, "callboard-model")

    def command(self, name: str, suffix: str, *arguments: Any) -> Any:
        """A command on a key of the namespace."""
        return self.wire.call((name, self.keys.of(suffix), *arguments))

    def run(self, operation: str, *arguments: Any) -> Any:
        """One of the Lua functions."""
        command = ("FCALL", library().function(operation), 1, self.keys.prefix, *arguments)
        try:
            return self.wire.call(command)
        except CommandError as error:
            if not is_missing(error):
                raise
        try:
            self.wire.call(("FUNCTION", "LOAD", library().text))
        except CommandError as error:
            if not is_there_already(error):
                raise
        return self.wire.call(command)

    def photo(self) -> Photo:
        """All that the namespace holds."""
        pattern = self.keys.prefix.replace("{", "[{]") + "*"
        return Photo(self.wire.call(("EVAL", PHOTO, 0, self.keys.prefix, pattern)))

    def lane(self, worker: str = "", calls: int = 0, acknowledged: int = 0) -> WorkerLane:
        """A worker's line that is answered at once; drive it with `at_once`."""
        link = cast("Link", InstantLink(self))
        lane = WorkerLane(link, link)
        lane.incarnation = Incarnation(worker, acknowledged)
        lane._calls = calls
        return lane

    def keep(self) -> list[Any]:
        """Every key of the namespace, for `put_back`."""
        kept: list[Any] = self.wire.call(keeping(self.keys.prefix))
        return kept

    def put_back(self, kept: list[Any]) -> None:
        """The server has lost everything since."""
        self.wire.call(putting_back(self.keys.prefix, kept))

    def clear(self) -> None:
        """Removes every key of the namespace."""
        names = self.wire.call(("KEYS", self.keys.prefix.replace("{", "[{]") + "*"))
        if names:
            self.wire.call(("UNLINK", *names))

    def close(self) -> None:
        self.wire.close()


class InstantLink:
    """Stands in for a `Link`."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.settings = bus.settings
        self.endpoint = bus.endpoint
        self.keys = bus.keys

    async def run(self, operation: str, arguments: Sequence[Any]) -> Any:
        return self._bus.run(operation, *arguments)

    async def despite_losses(self, call: Callable[[], Awaitable[T]]) -> T:
        return await call()


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        return cast("T", done.value)
    work.close()
    raise AssertionError("it waits for something")


def publish_arguments(
    settings: BrokerSettings, producer: str, batch: int, postings: Sequence[Posting]
) -> list[Any]:
    """What the publisher gives to publish.lua."""
    arguments: list[Any] = [
        producer,
        batch,
        limits_of(settings),
        len(postings),
        sum(one.fence is not None for one in postings) or "",
    ]
    arguments += message_values(postings)
    for number, one in enumerate(postings):
        if one.fence is not None:
            arguments += (number, *one.fence)
    return arguments
